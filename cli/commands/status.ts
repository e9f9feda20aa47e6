// `status`: what a running server says of itself. Exit 1 where it says that it is not ready.

import type { Status } from '../../control/server-routes.ts';
import type { Context } from '../command.ts';
import { facts, jsonText } from '../output.ts';

export async function status(context: Context): Promise<number> {
  const answer = await (await context.client()).status();
  if (context.json) context.out(jsonText(answer));
  else {
    const guard = (one: (typeof answer)['git']): string =>
      one.enabled ? `${one.advertise} (listens on ${one.listen}), ${one.sessions ?? 0} sessions` : 'off';
    context.out(
      facts([
        ['version', answer.version],
        ['started', answer.startedAt],
        ['ready', answer.ready ? 'yes' : 'no'],
        ['git guard', guard(answer.git)],
        ['kube guard', guard(answer.kube)],
        ['control', [answer.control.socket, answer.control.listen].filter(Boolean).join(' and ')],
        ['ops', answer.ops.listen],
        ['store', answer.store],
        ['key', `${answer.key.primary} (${answer.key.source})`],
        ['audit', `${answer.audit.dir}, onFailure ${answer.audit.onFailure}`],
        ...brokerFacts(answer.broker),
        ...answer.checks
          .filter((check) => !check.ok || check.degraded)
          .map(
            (check) => [`${check.ok ? 'degraded' : 'failing'}: ${check.name}`, check.reason ?? ''] as const,
          ),
      ]),
    );
  }
  return answer.ready ? 0 : 1;
}

function brokerFacts(broker: Status['broker']): (readonly [string, string | undefined])[] {
  if (!broker) return [];
  const leases = Object.entries(broker.leases).map(([kind, count]) => `${count} with ${kind}`);
  return [
    ['leases', leases.join(', ') || 'none'],
    ['requests', broker.requestsWaiting > 0 ? `${broker.requestsWaiting} waiting for a decision` : undefined],
    ['rows to rotate', broker.rowsToRotate > 0 ? String(broker.rowsToRotate) : undefined],
  ];
}
