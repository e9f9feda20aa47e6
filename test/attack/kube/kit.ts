// What the attacks on the Kubernetes guard share: a guard before an upstream that takes whatever comes, and requests as
// these very bytes.

import type { KubeClusterInput } from '../../../sessions/guards.ts';
import {
  closeAll,
  type Held,
  kubeconfigFor,
  onClose,
  type Session,
  startGuard,
} from '../../kubeguard/harness.ts';
import { type LenientUpstream, lenientUpstream } from '../../support/lenient-upstream.ts';
import { rawConnect, rawExchange } from '../../support/raw-client.ts';

export const POD = '/api/v1/namespaces/team-a/pods';
export const SPDY = [
  'Connection: Upgrade',
  'Upgrade: SPDY/3.1',
  'X-Stream-Protocol-Version: v4.channel.k8s.io',
];
export const WEBSOCKET = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  'Sec-WebSocket-Protocol: v5.channel.k8s.io',
];

export interface Field {
  readonly upstream: LenientUpstream;
  readonly held: Held;
  issue(rules: Partial<Omit<KubeClusterInput, 'kubeconfig'>>, user?: object): Promise<Session>;
  /** The request line and more lines; Host and Authorization are added. */
  head(session: Session, line: string, lines?: readonly string[]): string;
  raw(
    session: Session,
    line: string,
    lines?: readonly string[],
    body?: string,
  ): ReturnType<typeof rawExchange>;
  connect(): ReturnType<typeof rawConnect>;
}

export async function openField(config: Parameters<typeof startGuard>[0] = {}): Promise<Field> {
  const upstream = await lenientUpstream();
  onClose(() => upstream.close());
  const held = await startGuard(config);
  const head = (session: Session, line: string, lines: readonly string[] = []): string =>
    [line, `Host: 127.0.0.1:${held.port}`, `Authorization: Bearer ${session.token}`, ...lines, '', ''].join(
      '\r\n',
    );
  return {
    upstream,
    held,
    issue: (rules, user) =>
      held.issue({ kubeconfig: kubeconfigFor(upstream.origin, user), namespaces: ['team-a'], ...rules }),
    head,
    raw: (session, line, lines, body = '') =>
      rawExchange(held.port, held.ca, head(session, line, lines) + body, 500),
    connect: () => rawConnect(held.port, held.ca),
  };
}

export { closeAll };
