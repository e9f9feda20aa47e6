// What every request of a sandbox passes. For a session in use this waits for nothing: the token's hash is known, the
// session was read a moment ago, and the exchange is entered among the live ones in the same step as the last check, so
// that a revocation either comes before and refuses it or after and ends it.

import { PosternError } from '../common/errors.ts';
import type { Core } from './core.ts';
import { judge } from './judge.ts';
import type { Entry } from './live.ts';
import type { SessionRecord } from './record.ts';
import type { Authentication, GuardName, Live, LiveExchange, SessionRegistry } from './session.ts';
import type { Claims } from './token.ts';

export function authenticator(core: Core): SessionRegistry['authenticate'] {
  const { tokens, sessions, clock } = core;

  return <P>(
    guard: GuardName,
    id: string | undefined,
    token: string,
    exchange: LiveExchange,
  ): Promise<Authentication<P>> => {
    const claims = tokens.known(guard, token);
    const record = claims && sessions.peek(claims.sessionId);
    // A session that looks expired may have been renewed by another process: that one is read again.
    if (claims && record && judge({ claims, id }, record, clock.now()) !== 'expired')
      return Promise.resolve(admit<P>(core, claims, id, record, exchange));
    return lookUp<P>(core, guard, id, token, exchange);
  };
}

async function lookUp<P>(
  core: Core,
  guard: GuardName,
  id: string | undefined,
  token: string,
  exchange: LiveExchange,
): Promise<Authentication<P>> {
  const { tokens, sessions, clock } = core;
  const claims = tokens.known(guard, token) ?? (await tokens.verify(guard, token));
  if (typeof claims === 'string') return { ok: false, failure: claims };
  let record = await sessions.load(claims.sessionId);
  if (record && judge({ claims, id }, record, clock.now()) === 'expired')
    record = await sessions.reload(claims.sessionId);
  return admit(core, claims, id, record, exchange);
}

/** The last check and the entry, in one step. */
function admit<P>(
  core: Core,
  claims: Claims,
  id: string | undefined,
  record: SessionRecord | undefined,
  exchange: LiveExchange,
): Authentication<P> {
  const { sessionId } = claims;
  const session = record?.session as Live<P>['session'] | undefined;
  const judged = judge({ claims, id }, record, core.clock.now());
  const failure = judged !== 'mismatched' && core.marks.revoked.has(sessionId) ? 'revoked' : judged;
  if (failure || !record || !session)
    return { ok: false, failure: failure ?? 'unknown', sessionId, ...(session ? { session } : {}) };
  const entry = core.live.enter(record, exchange);
  if (!entry) return { ok: false, failure: 'too_many', sessionId, session };
  return { ok: true, live: liveOf(core, entry, session) };
}

function liveOf<P>(core: Core, entry: Entry, session: Live<P>['session']): Live<P> {
  const { custody, live, counters, marks } = core;
  let finished = false;

  const isOver = (grantId: string | undefined): boolean =>
    entry.ending !== undefined ||
    (grantId !== undefined && marks.removed.get(session.id)?.has(grantId) === true);

  return {
    session,

    credential(id) {
      const ref = session.credentials.find((credential) => credential.id === id);
      if (!ref) return Promise.reject(new TypeError(`sessions: ${session.id} has no credential ${id}`));
      entry.exchange.credentialId = id;
      if (isOver(ref.grantId)) return Promise.reject(over());
      return custody.open(session.id, id).then((credential) => {
        if (isOver(ref.grantId)) throw over();
        return credential;
      });
    },

    done(outcome) {
      if (finished) return;
      finished = true;
      live.leave(entry);
      counters.add(session.id, outcome);
    },
  };
}

function over(): PosternError {
  return new PosternError('gone', 'the session has ended, or the grant was taken out of it');
}
