// `session list|show|renew|revoke`.

import { PosternError } from '../../common/errors.ts';
import type { SessionView } from '../../control/schemas.ts';
import type { Context } from '../command.ts';
import { facts, jsonText, table } from '../output.ts';

export async function list(context: Context): Promise<number> {
  const leaseId = context.flag('lease');
  const client = await context.client();
  const answer = await client.sessions(leaseId === undefined ? {} : { leaseId });
  if (context.json) context.out(jsonText(answer));
  else if (answer.sessions.length === 0) context.out('There are no sessions.\n');
  else
    context.out(
      table(
        ['SESSION', 'GUARD', 'LEASE', 'STATE', 'EXPIRES', 'REQUESTS', 'DENIED'],
        answer.sessions.map((session) => [
          session.sessionId,
          session.guard,
          session.leaseId,
          session.state,
          session.expiresAt,
          String(session.counters.requests),
          String(session.counters.denied),
        ]),
      ),
    );
  return 0;
}

export async function show(context: Context): Promise<number> {
  const session = await (await context.client()).session(id(context));
  context.out(context.json ? jsonText(session) : describe(session));
  return 0;
}

export async function renew(context: Context): Promise<number> {
  const answer = await (await context.client()).renew(id(context), context.flag('ttl'));
  context.out(context.json ? jsonText(answer) : `${answer.sessionId} now expires at ${answer.expiresAt}\n`);
  return 0;
}

export async function revoke(context: Context): Promise<number> {
  const lease = context.flag('lease');
  if ((lease === undefined) === (context.args[0] === undefined))
    throw new PosternError('invalid_input', 'Name either a session or --lease L.', {
      key: 'ID',
      remedy: 'Usage: postern session revoke ID, or postern session revoke --lease L',
    });
  const client = await context.client();
  if (lease === undefined) {
    const answer = await client.revoke(id(context));
    context.out(context.json ? jsonText(answer) : `${answer.sessionId} has ended\n`);
  } else {
    const answer = await client.revokeLease(lease);
    context.out(
      context.json
        ? jsonText(answer)
        : `Ended, of ${answer.leaseId}: ${answer.revoked.join(' ') || 'none was live'}\n`,
    );
  }
  return 0;
}

function id(context: Context): string {
  return context.args[0] ?? '';
}

function describe(session: SessionView): string {
  const { counters } = session;
  const labels = Object.entries(session.labels).map(([name, value]) => `${name}=${value}`);
  const custody = session.credentials.map((one) => one.secretName ?? one.secretId ?? one.grantId ?? one.id);
  return facts([
    ['session', session.sessionId],
    ['guard', session.guard],
    ['lease', session.leaseId],
    ['state', session.state],
    ['because', session.revokedBecause],
    ['created', session.createdAt],
    ['expires', session.expiresAt],
    ['at most until', session.hardExpiresAt],
    ['labels', labels.length > 0 ? labels.join(' ') : undefined],
    ['custody', custody.join(' ')],
    ['policy', JSON.stringify(session.policy)],
    ['requests', `${counters.requests}, ${counters.denied} denied`],
    ['bytes', `${counters.bytesUp} up, ${counters.bytesDown} down`],
    ['last used', counters.lastUsedAt],
  ]);
}
