// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const JUDGE = ['test/sessions/expiry.test.ts'];
const TOKEN = ['test/sessions/token.test.ts'];
const REGISTRY = ['test/sessions/registry.test.ts'];
const ENDING = ['test/sessions/ending.test.ts'];
const FRESH = ['test/sessions/fresh.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('sessions/judge.ts', JUDGE, [
    ['the id beside a token is its own', 'if (id !== undefined && id !== claims.sessionId)', 'if (false)'],
    ['a session is of one guard', 'session.guard !== claims.guard || ', ''],
    ['a token names the lease of its session', ' || session.leaseId !== claims.leaseId', ''],
    ['a revoked session is over', 'if (session.revokedAt !== undefined)', 'if (false)'],
    ['a session ends at its end, not after it', 'now >= session.expiresAt', 'now > session.expiresAt'],
    ['the hard end holds whatever the rolling one says', ' || now >= session.hardExpiresAt', ''],
    ['a session that was closed stays closed', 'hasEnded(record) || ', ''],
  ]),
  ...breaking('sessions/expiry.ts', JUDGE, [
    ['a time over the limit is an error', 'if (wanted > maxTtl)', 'if (false)'],
    ['no time is an error', '!Number.isFinite(wanted) || wanted < 1', 'false'],
    ['a renewal never passes the hard end', 'Math.min(now + ttl, hardExpiresAt)', 'now + ttl'],
  ]),
  ...breaking('sessions/failure.ts', JUDGE, [
    [
      'outside, a revoked session looks like any other failure',
      "if (failure === 'expired')",
      "if (failure === 'expired' || failure === 'revoked')",
    ],
  ]),
  ...breaking('sessions/token.ts', TOKEN, [
    ['a token of another type is none', '        typ: TYPE,\n', ''],
    ['a token of another deployment is none', '        issuer,\n', ''],
    ['a token is for one guard', '        audience: guard,\n', ''],
    ['what is remembered is for one guard', '`${guard}:${hash(', '`${hash('],
    [
      'a token ends with the hard end',
      'Math.ceil(hardExpiresAt / 1000)',
      'Math.ceil(hardExpiresAt / 1000) + 3600',
    ],
    [
      'a token has one spelling',
      "part !== '' && Buffer.from(part, 'base64url').toString('base64url') === part",
      "part !== ''",
    ],
  ]),
  ...breaking('sessions/authenticate.ts', ENDING, [
    ['a revocation counts before it is stored', 'core.marks.revoked.has(sessionId)', 'false'],
    ['an exchange that is ending opens no credential', 'entry.ending !== undefined ||', 'false ||'],
    [
      'a credential of a removed grant is not opened',
      'marks.removed.get(session.id)?.has(grantId) === true',
      'false',
    ],
  ]),
  ...breaking('sessions/live.ts', REGISTRY, [
    ['a session has so many exchanges at once', 'group.entries.size >= maxConcurrent', 'false'],
  ]),
  ...breaking('sessions/registry.ts', REGISTRY, [
    [
      'what is over is not renewed',
      'hasEnded(record) || marks.revoked.has(id) || now >= session.expiresAt',
      'false',
    ],
  ]),
  ...breaking('sessions/ending.ts', ENDING, [
    ['what is under way is cut by a revocation', "core.live.end(id, 'revoked')", 'Promise.resolve()'],
    [
      'what spends a removed grant is cut',
      "core.live.end(id, 'grant_removed', grantId)",
      'Promise.resolve()',
    ],
    [
      'a revoked session has nothing in custody',
      'const writes = core.custody.release(id, session.credentials);',
      'const writes = core.custody.release(id, []);',
    ],
    [
      'the last grant taken out ends the session',
      'record.session.credentials.length === 0 && !hasEnded(record)',
      'false',
    ],
    [
      'a renewed session is not closed by the sweep',
      'hasEnded(record) || now < record.session.expiresAt',
      'hasEnded(record)',
    ],
  ]),
  ...breaking('sessions/fresh.ts', FRESH, [
    ['an answer that is too old is not used', 'age < 0 || age >= maxAge', 'age < 0'],
    ['a clock that is set back makes nothing younger', 'age < 0 || age >= maxAge', 'age >= maxAge'],
    ['an answer from before a change counts for nothing', 'if (ticket.overtaken) return await load(id);', ''],
  ]),
];
