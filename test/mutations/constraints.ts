// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const CONSTRAINTS = ['test/broker/constraints.test.ts'];
const SUBJECT = ['test/broker/subject.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('broker/constraints/constraints.ts', CONSTRAINTS, [
    [
      'a constraint that nobody knows is an error',
      'throw bad(key, `there is no',
      'void bad(key, `there is no',
    ],
    ['a flag is true or false, not a word', "typeof value !== 'boolean'", 'false'],
    ['a list has a bound', 'value.length > MAX_PATTERNS', 'false'],
    ['an empty list opens nothing where a list has to gate', '?.length ?? 0) > 0)', '?.length ?? 0) >= 0)'],
    ['a constraint that does not narrow the kind is refused', '&& !names.includes(name)', '&& false'],
  ]),
  ...breaking('broker/constraints/host.ts', CONSTRAINTS, [
    ['*.example.com is not evilexample.com', '`.${named}`', 'named'],
    ['a host is compared whole', ': host === named', ': host.endsWith(named)'],
    ['an address in an odd spelling is no host', 'return isIP(name) === 4 ? name : undefined', 'return name'],
    ['a name that is made to look like another is refused', '!labels.every((', '!labels.some(('],
    ['there is nothing below an address', '(below && isIP(host) !== 0)', 'false'],
  ]),
  ...breaking('broker/constraints/kube.ts', CONSTRAINTS, [
    ['silence about verbs is reading', 'constraints.verbs : READ_VERBS', 'constraints.verbs : VERBS'],
    [
      'a grant that lists contexts opens exactly those',
      'constraints.contexts.some((pattern) => compileName(pattern)(name))',
      'true',
    ],
    [
      'no context without a list of contexts or namespaces',
      '(constraints.namespaces?.length ?? 0) > 0',
      'true',
    ],
    [
      'an absent list of namespaces denies',
      '(constraints.namespaces ?? []).some',
      "(constraints.namespaces ?? ['*']).some",
    ],
    ['a verb that does not exist is refused', '!VERBS.includes(verb)', 'false'],
    ['a resource that cannot be read is refused', '!RESOURCE.test(resource)', 'false'],
  ]),
  ...breaking('broker/constraints/permission.ts', CONSTRAINTS, [
    ['silence about permissions is contents:read', ": ['contents:read']", ": ['*']"],
    ['a lower level does not take in a higher one', 'rank(has) >= rank(level)', 'rank(has) <= rank(level)'],
    ['a level that does not exist is refused', '.test(name) || !isLevel(level)', '.test(name)'],
    [
      'a token that GitHub made wider than it was asked for is noticed',
      'rank(level) > rank(has)',
      'false',
      ['test/broker/github-app.test.ts'],
    ],
  ]),
  ...breaking('broker/constraints/refs.ts', CONSTRAINTS, [
    ['a branch list names full refs', "!glob.startsWith('refs/')", 'false'],
  ]),
  ...breaking('broker/constraints/repo.ts', CONSTRAINTS, [
    ['a pattern is one owner and one repository', 'segments.length !== 2', 'segments.length > 2'],
    [
      'repositories match in any case',
      'compileGlob(pattern, { caseInsensitive: true })(repo)',
      'compileGlob(pattern)(repo)',
    ],
    ['a URL is of a known host', "known(url[1] ?? '')", 'true'],
    ['an ssh address is of a known host', "known(scp[1] ?? '')", 'true'],
    ['a name with more segments is denied', 'more.length > 0 || !fits(owner)', '!fits(owner)'],
    ['what does not reduce to a name is denied', "segment !== '.' && segment !== '..'", 'true'],
  ]),
  ...breaking('broker/subject.ts', SUBJECT, [
    [
      'a subject of another type is an error',
      "throw fail('is not a subject')",
      "void fail('is not a subject')",
    ],
    ['a star inside a subject is refused', "if (value.includes('*')) throw", 'if (false) throw'],
    ['every label of a subject has to match', 'pairs.every(', 'pairs.some('],
    ['a subject without labels selects nobody', 'pairs.length > 0 &&', 'true &&'],
    ['a star does not select who has no name', "if (id === undefined || id === ''", 'if (false'],
    ['a subject is compared whole', 'subject.value === id;', 'id.startsWith(subject.value);'],
    ['any is a wildcard', "return subject.type === 'any' || (", 'return ('],
    ['a label is named once', 'if (labels.has(key)) throw', 'if (false) throw'],
  ]),
  ...breaking('broker/requester.ts', SUBJECT, [
    ['a requester is one, never a star', "if (text === '*') throw", 'if (false) throw'],
    ['/srv/app/ is /srv/app', "path.replace(/\\/$/, '')", 'path'],
  ]),
];
