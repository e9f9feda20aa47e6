// What the attacks on the git guard share: raw requests of a session, and a push as bytes.

import { FLUSH_PKT, pktLine } from '../../../gitproxy/pkt-line.ts';
import type { IssuedGitSession } from '../../../sessions/guards.ts';
import { basicOf, type TestGuard } from '../../support/git-guard.ts';

export const ZERO = '0'.repeat(40);
export const ONE = '1'.repeat(40);
export const PUSH_TYPE = 'Content-Type: application/x-git-receive-pack-request';
export const FETCH_TYPE = 'Content-Type: application/x-git-upload-pack-request';

/** A head with the session's credential, its end included. */
export function head(
  guard: TestGuard,
  session: IssuedGitSession | undefined,
  line: string,
  ...headers: readonly string[]
): string {
  const auth = session ? [`Authorization: ${basicOf(session)}`] : [];
  return [`${line} HTTP/1.1`, `Host: 127.0.0.1:${guard.port}`, ...auth, ...headers, '', ''].join('\r\n');
}

/** The command list of a push, its flush included. */
export function commands(
  refs: readonly (readonly [old: string, next: string, ref: string])[],
  capabilities = 'report-status side-band-64k',
): Buffer {
  const lines = refs.map(([old, next, ref], i) =>
    pktLine(`${old} ${next} ${ref}${i === 0 ? `\0 ${capabilities}` : ''}\n`),
  );
  return Buffer.concat([...lines, FLUSH_PKT]);
}

/** A whole push of one new ref, as a request with Content-Length. */
export function push(guard: TestGuard, session: IssuedGitSession, ref = 'refs/heads/agent/x'): Buffer {
  const body = Buffer.concat([commands([[ZERO, ONE, ref]]), Buffer.from('PACK')]);
  const text = head(
    guard,
    session,
    'POST /acme/tool.git/git-receive-pack',
    PUSH_TYPE,
    `Content-Length: ${body.length}`,
  );
  return Buffer.concat([Buffer.from(text, 'latin1'), body]);
}
