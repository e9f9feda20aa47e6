// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const POLICY = ['test/kubeguard/policy.test.ts'];
const HEADERS = ['test/kubeguard/headers.test.ts'];
const READ = ['test/kubeguard/request-info.test.ts'];
const RULES = ['test/kubeguard/rules.test.ts'];
const UPGRADE = ['test/kubeguard/upgrade.test.ts'];
const PLACE = ['test/kubeguard/session-policy.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('kubeguard/policy.ts', POLICY, [
    ['a verb has to be granted', 'verbs && !verbs.includes(verb)', 'false'],
    [
      "the deployment's verbs bound every session",
      'sides.find(({ verbs }) =>',
      'sides.slice(0, 1).find(({ verbs }) =>',
    ],
    [
      "the deployment's resources bound every session",
      'sides.find(({ resources }) => !admits(resources ?? EVERYTHING, info))',
      'sides.slice(0, 1).find(({ resources }) => !admits(resources ?? EVERYTHING, info))',
    ],
    [
      "the deployment's resources bound the dangerous ones too",
      'sides.find(({ resources }) => !admits(resources ?? EVERYTHING, info, info.verb))',
      'sides.slice(0, 1).find(({ resources }) => !admits(resources ?? EVERYTHING, info, info.verb))',
    ],
    ['a resource has to be granted', 'if (side) return refuse.resource(info, side);', ''],
    [
      'a dangerous subresource has to be granted',
      'if (side || info.verbFromPath) return',
      'if (info.verbFromPath) return',
    ],
    ['the old proxy path stays shut', 'if (side || info.verbFromPath) return', 'if (side) return'],
    ['an exec by GET creates', "dangerous ? ['create'] : needed", 'needed'],
    ['server-side apply creates', "(verb === 'patch' && contentType", '(false && contentType'],
    ['a PUT of what it can make creates', "(verb === 'update' && isCreated", '(false && isCreated'],
    [
      'a namespace outside of the list is refused',
      'return side ? refuse.namespace(info, side) :',
      'return false ? undefined :',
    ],
    [
      'under a list nothing cluster-wide is served',
      "  if (info.namespace === '') return refuse.clusterScope(info, first);\n  const",
      '  const',
    ],
    ['a namespace is not made under a list', "info.verb !== 'list' && info.verb !== 'watch'", 'false'],
    [
      'a list of namespaces is narrowed',
      'admits: (name) => outside(name) === undefined',
      'admits: () => true',
    ],
    [
      'a Namespace object is changed by who was granted it by name',
      'if (!reads && unnamed &&',
      'if (false && unnamed &&',
    ],
    [
      'a path outside of the API is granted by name',
      'if (!open && !nonResourcePaths',
      'if (false && !nonResourcePaths',
    ],
    [
      'a path outside of the API is read only',
      "if (info.method !== 'GET' && info.method !== 'HEAD') return",
      'if (false) return',
    ],
    ['a method without a verb is refused', 'info.isResource && !METHODS.has(info.method)', 'false'],
    ['the old prefixes are read only', "info.verbFromPath && info.method !== 'GET'", 'false'],
    [
      "a question about one's own rights names nobody else",
      "name !== '' || namespace !== '' || subresource !== ''",
      'false',
    ],
  ]),
  ...breaking('kubeguard/resources.ts', POLICY, [
    ['exec is dangerous', "new Set(['exec', ", 'new Set(['],
    ['attach is dangerous', "'attach', 'portforward', 'proxy', ", "'portforward', 'proxy', "],
    ['portforward is dangerous', "'portforward', 'proxy', 'eph", "'proxy', 'eph"],
    ['proxy is dangerous', "'proxy', 'ephemeralcontainers'", "'ephemeralcontainers'"],
    ['debug containers are dangerous', ", 'ephemeralcontainers']", ']'],
    ['tokens of service accounts are dangerous', "return resource === 'serviceaccounts'", 'return false'],
    ['approval of certificates is dangerous', "return subresource === 'approval' &&", 'return false &&'],
    ['silence about resources leaves Secrets out', '!dangerous && !isSecret(name)', '!dangerous'],
    ['silence about resources leaves the doors out', '!dangerous && !isSecret(name)', '!isSecret(name)'],
    [
      'a pattern without a subresource opens no door',
      'if (pattern.subresource === undefined) return !named',
      'if (pattern.subresource === undefined) return true',
    ],
    [
      'a pattern is of its group',
      '&& pattern.group !== name.apiGroup) return false',
      '&& false) return false',
    ],
    [
      'a pattern is of its resource',
      "if (pattern.resource !== '*' && pattern.resource !== name.resource) return false;",
      '',
    ],
  ]),
  ...breaking('kubeguard/request-info.ts', READ, [
    ['a path has no empty segment', "if (segment === '') throw", 'if (false) throw'],
    ['a path has no dot segment', "if (segment === '.' || segment === '..')", 'if (false)'],
    ['an escape stands for nothing that needs none', 'if (never.test(decoded))', 'if (false)'],
    ['a parameter is there once', 'seen.has(key) && !MAY_REPEAT.has(key)', 'false'],
    ['a namespace is a DNS label', 'if (!DNS_LABEL.test(words.namespace))', 'if (false)'],
    ['a word of the API is lower case', 'part === undefined || !API_WORD.test(part)', 'part === undefined'],
    ['deleting without a name is deletecollection', "words.name === '' && verb === 'delete'", 'false'],
    ['watch=1 is a watch', "verb = isWatch(query) ? 'watch' : 'list'", "verb = 'list'"],
    ['the verb of the old prefixes is in the path', 'verb = rest[0] as string;', ''],
    ['HEAD is a get', "HEAD: 'get',", "HEAD: 'head',"],
  ]),
  ...breaking('kubeguard/headers.ts', HEADERS, [
    ['what goes up is on the list', 'const name = UP.get(lower);', 'const name = UP.get(lower) ?? lower;'],
    ['what Connection lists does not go up', 'listed.has(lower) || omit', 'omit'],
    ['what the guard says itself is not passed', ' || omit.includes(lower)', ''],
    ['what comes down is on the list', "'Retry-After' : undefined)", "'Retry-After' : lower)"],
    [
      "what the cluster's Connection lists does not come down",
      'value === undefined || listed.has(lower)',
      'value === undefined',
    ],
    ['a redirect is no answer', '(status < 300 || status >= 400)', 'true'],
    ['a challenge is no answer', 'status !== 401 && ', ''],
  ]),
  ...breaking('kubeguard/verbs.ts', RULES, [
    ['silence about verbs is reading', 'VERBS.filter((verb) => READ.includes(verb))', '[...VERBS]'],
    ['a verb that does not exist is refused', "word !== '*' && !isVerb(word)", 'false'],
  ]),
  ...breaking('kubeguard/upgrade.ts', UPGRADE, [
    ['a token in disguise is not offered to the cluster', 'asked.filter((one) => known.has(one))', 'asked'],
    ['an upgrade has no body', "values('transfer-encoding').length > 0 ||", 'false ||'],
    ["the cluster's 101 answers what was asked", "|| one('sec-websocket-accept') !== accept", ''],
    [
      'the cluster chooses among what was offered',
      "undefined || (chosen !== '' && !offered.includes(chosen))",
      'undefined',
    ],
  ]),
  ...breaking('kubeguard/session-policy.ts', PLACE, [
    [
      'a context whose credential was taken out is not there',
      'credentials.some(({ id }) => id === credentialId)',
      'credentialId !== undefined',
    ],
    ['a path that names no context is for the only one', 'held.length === 1', 'held.length >= 1'],
  ]),
  ...breaking('kubeguard/rules.ts', POLICY, [
    [
      'a grant without a list of namespaces has no bound, one with a list has',
      'rules.namespaces.length === 0 ? undefined',
      'true ? undefined',
    ],
    [
      "the deployment's namespaces bound every session",
      'namespaces: namespaces.length === 0 ? undefined',
      'namespaces: true ? undefined',
    ],
  ]),
  ...breaking(
    'kubeguard/minimise.ts',
    ['test/kubeguard/kubeconfig.test.ts'],
    [
      [
        'custody has the contexts of the grant and no other',
        'known.filter((name) => rules.contexts.includes(name))',
        'known',
      ],
      [
        'custody has the users of those contexts and no other',
        "users: used('user')",
        'users: [...config.users.keys()]',
      ],
    ],
  ),
  ...breaking(
    'kubeguard/namespaces.ts',
    ['test/kubeguard/streams.test.ts'],
    [
      [
        'a namespace that cannot be read does not pass',
        "return typeof name === 'string' && admits(name)",
        "return typeof name !== 'string' || admits(name)",
      ],
      [
        'how many more there are is not told',
        'delete metadata.remainingItemCount',
        'void metadata.remainingItemCount',
      ],
    ],
  ),
];
