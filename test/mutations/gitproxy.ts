// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const POLICY = ['test/gitproxy/policy.test.ts'];
const ROUTE = ['test/gitproxy/route.test.ts'];
const COMMANDS = ['test/gitproxy/receive-pack.test.ts'];
const REF = ['test/gitproxy/ref-name.test.ts'];
const OPTIONS = ['test/gitproxy/push-options.test.ts'];
const ISSUE = ['test/gitproxy/issue.test.ts'];
const BASIC = ['test/gitproxy/basic.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('gitproxy/policy.ts', POLICY, [
    [
      'a grant whose credential was taken out counts for nothing',
      'credentials.some(({ id }) => id === credentialId)',
      'credentialId !== undefined',
    ],
    ['two upstreams that fit equally are ambiguous', 'if (upstreams.size > 1)', 'if (false)'],
    [
      'the most specific grant chooses the upstream',
      'upstreams.has(grant.upstream) && (operation',
      '(operation',
    ],
    ['reading does not include writing', "operation === 'read' || grant.write", 'true'],
    ['a star is the least specific', "if (pattern === '*') return 0", "if (pattern === '*') return 4"],
    ['a push names so many refs', 'commands.length > ceiling.maxRefs', 'false'],
    ['a ref is named once in a push', 'if (again) return', 'if (false) return'],
    ['all or nothing', 'refusals.find((each) => each !== undefined)', 'refusals[0]'],
    ['a ref is one that git takes', 'if (!isPushableRef(ref))', 'if (false)'],
    ['a command that does nothing is refused', "if (operation === 'nothing')", 'if (false)'],
    ["no push goes beyond the deployment's refs", 'if (!inCeiling)', 'if (false)'],
    ["no push goes beyond the grant's refs", '.filter((rule) => rule.matches(ref))', ''],
    [
      'no session deletes where the deployment does not',
      "operation === 'delete' && ceiling.allowDelete === false)",
      'false)',
    ],
    ['deleting is granted', "grant.allowDelete ? (['delete'] as const) : []", "['delete'] as const"],
    [
      'create: in front permits creating and nothing else',
      "prefix.split(',') as RefOperation[]",
      "['create', 'update', 'delete'] as RefOperation[]",
    ],
    ['push options are judged', 'if (!option) return { ok: true };', 'return { ok: true };', OPTIONS],
  ]),
  ...breaking('gitproxy/push-options.ts', OPTIONS, [
    [
      'an option that acts beyond the refs is named',
      'family !== undefined && !matching',
      'false && !matching',
    ],
    ['an option that nothing admits is refused', 'if (matching.length === 0) return', 'if (false) return'],
    ['an option is compared as a whole text', 'return option === last', 'return option.startsWith(last)'],
    ['forges fold the case of options', '.trimEnd()\n    .toLowerCase()', '.trimEnd()'],
    ['a push carries so many options', 'options.length > MAX_OPTIONS', 'false'],
  ]),
  ...breaking('gitproxy/route.ts', ROUTE, [
    [
      'a path has no odd characters and no empty segment',
      'if (!PATH.test(path)) return',
      'if (false) return',
    ],
    ['a path has no dot segment', "segment === '.' || segment === '..')", 'false)'],
    ['.git is taken off once', "!text.toLowerCase().endsWith('.git')", 'true'],
    ['names are lower case', 'owner: owner.toLowerCase()', 'owner'],
    ['the query of info/refs is one literal', '/^service=([a-z-]+)$/', '/service=([a-z-]+)/'],
    ['the dumb protocol is not served', 'if (query === undefined)', 'if (false)'],
    [
      'no other service is served',
      "if (service !== 'git-upload-pack' && service !== 'git-receive-pack')",
      'if (false)',
    ],
    ['an advertisement is a GET', "request.method !== 'GET'", 'false'],
    ['an exchange is a POST', "request.method !== 'POST'", 'false'],
    ['a POST has no query', 'if (query !== undefined) return spelling', 'if (false) return spelling'],
    ['the Content-Type is exact', 'if (request.contentType !== wanted)', 'if (false)'],
    ['a push is never compressed as a whole', "(!gzip || service === 'git-receive-pack')", '!gzip'],
    [
      'a protocol version is one of three',
      "return version === undefined ? 'odd'",
      'return version === undefined ? {}',
    ],
    ['a GET has no body', 'if (request.hasBody) return', 'if (false) return'],
  ]),
  ...breaking('gitproxy/receive-pack.ts', COMMANDS, [
    ['capabilities follow the first command only', 'if (commands.length > 0) throw', 'if (false) throw'],
    ['a signed push is refused', "if (line === 'push-cert')", 'if (false)'],
    ['object names are of one length', 'old.length !== length) || shallow', 'false) || shallow'],
    [
      'the two names of a command are of one length',
      "ref === '' || old.length !== next.length",
      "ref === ''",
    ],
    [
      'a command list ends with a flush and nothing else',
      "if (pkt.kind !== 'flush') throw",
      'if (false) throw',
    ],
    ['the head of a push has a bound', '(commandBytes < 0 ? read : commandBytes) > MAX_HEAD_BYTES', 'false'],
    ['push options have a bound', 'read - commandBytes > MAX_OPTION_BYTES', 'false'],
    ['a push option ends nowhere but at its end', 'if (!OPTION.test(option)) throw', 'if (false) throw'],
    ['object-format is named once', 'if (formats.length > 1) throw', 'if (false) throw'],
    ['what makes something of nothing creates', "fromNothing ? 'create'", "fromNothing ? 'update'", POLICY],
    ['what makes nothing of something deletes', "toNothing ? 'delete'", "toNothing ? 'update'", POLICY],
  ]),
  ...breaking('gitproxy/ref-name.ts', REF, [
    ['a ref name is well formed', '|| FORBIDDEN.test(ref)', ''],
    ['a ref is a full name', "!ref.startsWith('refs/') || ", ''],
    ['a ref has a kind and a name', ".split('/').length >= 3", ".split('/').length >= 2"],
    ['a ref name is UTF-8', ' && isUtf8(ref)', ''],
  ]),
  ...breaking('gitproxy/basic.ts', BASIC, [
    [
      'a header decodes from one spelling',
      "if (bytes.toString('base64').replace(/=+$/, '') !== encoded",
      "if ('' === encoded",
    ],
    ['what is decoded can be printed', '|| !/^[\\x21-\\x7e]*$/.test(text)', ''],
  ]),
  ...breaking('gitproxy/issue.ts', ISSUE, [
    ['repositories are in lower case', 'const pattern = text.toLowerCase();', 'const pattern = text;'],
    ['an upstream is one that is listed', 'upstream.url === origin', 'true'],
    ['an upstream is an origin', " || url.pathname !== '/'", ''],
    [
      'silence is reading',
      "permissions.includes('contents:write') ||",
      "permissions.length === 0 || permissions.includes('contents:write') ||",
    ],
    ['without the permission ref rules mean nothing', 'return write ? grant : {', 'return true ? grant : {'],
    ['a grant names a repository', 'input.repos.length === 0', 'false'],
    ['ref rules are of full names', "if (!rule?.glob.startsWith('refs/'))", 'if (false)'],
    ['what could push to nothing is refused', 'checkCeiling(grants, ceiling);', ''],
  ]),
];
