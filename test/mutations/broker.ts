// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const OWNERSHIP = ['test/broker/ownership.test.ts'];
const SECRETS = ['test/broker/secrets.test.ts'];
const REQUESTS = ['test/broker/requests.test.ts'];
const LIFECYCLE = ['test/broker/lifecycle.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('broker/secrets/ownership.ts', OWNERSHIP, [
    [
      'owners are compared whole',
      '.includes(normaliseOwner(secret.owner))',
      '.some((id) => normaliseOwner(`${secret.owner}`).startsWith(id))',
    ],
    ['a personal secret does not exist for others', '|| caller.admin === true', '|| true'],
    ['an admin sees a personal secret', '|| caller.admin === true', ''],
    [
      'being an admin spends nothing',
      'ownedBy(secret, caller);',
      'ownedBy(secret, caller) || caller.admin === true;',
    ],
  ]),
  ...breaking('broker/secrets/find.ts', OWNERSHIP, [
    ['a name finds what its caller may see', '.filter(({ secret }) => visibleTo(secret, caller));', ';'],
    ['a list shows what its caller may see', '.filter((secret) => visibleTo(secret, caller))', ''],
    [
      'who may not spend a secret is refused',
      'if (spendableBy(secret, caller)) return stored;',
      'return stored;',
    ],
    ['a secret that is being deleted gives no grant', 'if (secret.deleting)', 'if (false)', LIFECYCLE],
  ]),
  ...breaking('broker/secrets/mint.ts', OWNERSHIP, [
    [
      'an owner that turned out empty makes no shared secret',
      "normal === '' && (personal ||",
      'false && (personal ||',
    ],
    [
      'a personal secret is stored by its owner or an admin',
      "normal !== '' && !visibleTo(",
      'false && !visibleTo(',
    ],
    ['a personal name does not hide a shared one', 'await refuseHidden(context, draft);', ''],
  ]),
  ...breaking('broker/secrets/secret.ts', OWNERSHIP, [
    ["a name that is taken says nothing of other people's", '`personal:${secret.owner}`', "'shared'"],
    ['two secrets do not differ by case alone', 'return name.toLowerCase()', 'return name', SECRETS],
  ]),
  ...breaking('broker/secrets/delete.ts', LIFECYCLE, [
    [
      'deleting a secret revokes its grants',
      'await revokeGrant(context, grant.id,',
      'void (context, grant.id,',
    ],
  ]),
  ...breaking('broker/caller.ts', REQUESTS, [
    [
      'a subject of OpenID Connect keeps its case',
      'return subject ? `sub:${subject[1]}` : ',
      'return ',
      OWNERSHIP,
    ],
    [
      'who has no name is everybody',
      'left.length === 0 || right.length === 0) return true',
      'false) return true',
    ],
    ['one login under two prefixes is one person', 'while (LOGIN.test(text))', 'while (false)'],
    [
      'an address and its local part may be one person',
      'domainA === undefined || domainB === undefined || domainA',
      'domainA',
    ],
    ['an address with a plus is the one without', "local.replace(/\\+.*$/, '')", 'local'],
    ['nothing is done anonymously', "caller.actor.trim() !== ''", 'true', SECRETS],
  ]),
  ...breaking('broker/safe-ref.ts', SECRETS, [
    ['a token in the place of a name is not echoed', 'if (looksSecret(ref)) return', 'if (false) return'],
  ]),
  ...breaking('broker/name.ts', SECRETS, [
    ['a credential is no name', ': looksSecret(name)', ': false'],
    ['an id is no name', ': ID_LIKE.test(name)', ': false'],
  ]),
  ...breaking('broker/access.ts', SECRETS, [
    [
      'asking before acting looks at the repository',
      'coversRepo(constraints.repos ?? [], name) && allows',
      'allows',
    ],
    [
      'asking before acting looks at the permission',
      ' && allowsPermission(constraints.permissions, permission)',
      '',
    ],
    ['asking before acting looks at the host', 'coversHost(constraints.hosts ?? [], name)', 'true'],
  ]),
  ...breaking('broker/grants/create.ts', LIFECYCLE, [
    [
      'a personal secret goes to no wildcard',
      'isPersonal(secret) && isWildcard(subject)',
      'false',
      OWNERSHIP,
    ],
    ['no grant lives longer than the limit', 'if (ttl <= MAX_GRANT_TTL) return ttl', 'return ttl', SECRETS],
    [
      'constraints are held against the kind',
      'rulesOf(secret.kind).checkConstraints(constraints);',
      '',
      SECRETS,
    ],
    [
      'no grant is left behind a deleted secret',
      'writeGrant(grant, 0), check,',
      'writeGrant(grant, 0),',
      SECRETS,
    ],
  ]),
  ...breaking('broker/grants/grant.ts', LIFECYCLE, [
    ['a revoked grant gives nothing', 'if (grant.revokedAt !== undefined)', 'if (false)'],
    ['a grant that has ended gives nothing', ' && now >= grant.expiresAt', ' && false'],
  ]),
  ...breaking('broker/grants/list.ts', OWNERSHIP, [
    ["grants of other people's secrets are not listed", '.filter((grant) => visibleTo(grant, caller))', ''],
    ["a grant of somebody else's secret is not found", 'stored && visibleTo(stored.grant, caller)', 'stored'],
  ]),
  ...breaking('broker/grants/revoke.ts', LIFECYCLE, [
    [
      'revoking is idempotent: the first end stays',
      'if (stored.grant.revokedAt !== undefined) return',
      'if (false) return',
    ],
  ]),
];
