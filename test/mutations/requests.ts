import { breaking, type Mutation } from './mutation.ts';

const REQUESTS = ['test/broker/requests.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('broker/requests/rules.ts', REQUESTS, [
    [
      'two persons: nobody approves their own request',
      'if (!couldBeSamePerson(requesterOf(request), decider)) return',
      'return',
    ],
    ['a decision names the hash of what was read', 'if (hash === contentHash(request)) return', 'return'],
    ['what is decided stays so', "if (request.state !== 'pending')", 'if (false)'],
    ['only who asked withdraws', 'own.includes(identity)', 'true'],
    ['a wildcard is handed out by who may', 'delegation.allowWildcardSubject !== true', 'false'],
    ['who was given no limit hands out a week', 'delegation.maxTtl ?? DEFAULT_', 'delegation.maxTtl ?? MAX_'],
    [
      'an approver keeps to what they may hand out',
      'shorten ?? request.ttl, ceiling)',
      'shorten ?? request.ttl)',
    ],
    ['an approval never raises what was asked', 'Math.min(request.ttl, shorten', 'Math.min(shorten'],
    ['a request has a reason', "if (trimmed === '') throw", 'if (false) throw'],
    ['a denial says why', "trimmed === '' && required", 'false'],
    ['a credential in a reason is refused', 'if (looksSecret(text)) throw', 'if (false) throw'],
    [
      'text that turns its direction around is refused',
      ' || /[\\u202a-\\u202e\\u2066-\\u2069]/.test(line)',
      '',
    ],
    ['a request does not wait for ever', 'if (ttl <= MAX_REQUEST_TTL) return ttl', 'return ttl'],
  ]),
  ...breaking('broker/requests/request.ts', REQUESTS, [
    ['the hash covers the constraints', '\n    constraints,\n    scope,', '\n    scope,'],
    [
      'the hash covers the subject',
      '    subject: formatSubject(request.subject),\n    constraints,',
      '    constraints,',
    ],
    [
      'the hash covers the time of access',
      '    ttl,\n    justification,\n    createdAt,\n    expiresAt',
      '    justification,\n    createdAt,\n    expiresAt',
    ],
    [
      'past its deadline a request is not pending',
      "request.state === 'pending' && now < request.expiresAt",
      "request.state === 'pending'",
    ],
  ]),
  ...breaking('broker/requests/decide.ts', REQUESTS, [
    [
      'what is not pending is not decided',
      'await stillPending(context, stored);\n    mustBeRead',
      'mustBeRead',
    ],
    [
      'past its deadline a request is expired, whoever looks at it first',
      "request.state === 'pending' && context.now() >= request.expiresAt",
      'false',
    ],
    ['the grant and the state are one commit', 'return [writeRequest(approved, rev)]', 'return []'],
    [
      'a refused decision is on the record',
      'if (error instanceof PosternError)\n      await',
      'if (false)\n      await',
    ],
  ]),
  ...breaking('broker/requests/open.ts', REQUESTS, [
    ['a personal secret is not to be asked for', 'if (isPersonal(secret))', 'if (false)'],
    [
      'what is asked for is checked like a grant',
      'checkScope(secret, subject, input.constraints)',
      'input.constraints ?? {}',
    ],
  ]),
];
