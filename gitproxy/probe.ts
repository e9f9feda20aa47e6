// Before a large body git POSTs the four bytes of a flush, to see whether it is let in (both services). It asks nothing
// of the repository, so it is answered here, once the session is known to be allowed, and is not recorded.

import type { IncomingMessage } from 'node:http';
import { type Admitted, conclude, dropRest, type Ending, type FlowDeps, NOTHING_MOVED } from './flow.ts';
import { answerType, gitHeaders } from './upstream.ts';

/** @returns `empty`: it is a probe; else the bytes that were read to see that it is none, if any */
export async function readProbe(
  req: IncomingMessage,
  patienceMs: number,
  ending: Ending,
): Promise<'empty' | Buffer | undefined> {
  if (req.headers['content-length'] !== '4' || req.headers['content-encoding'] !== undefined)
    return undefined;
  const bytes = await new Promise<Buffer>((resolve) => {
    let read = Buffer.alloc(0);
    const finish = (): void => {
      clearTimeout(timer);
      req.off('data', onData).off('end', finish).off('close', finish);
      req.pause();
      resolve(read);
    };
    const onData = (chunk: Buffer): void => {
      read = Buffer.concat([read, chunk]);
      if (read.length >= 4) finish();
    };
    const timer = setTimeout(() => {
      req.socket.destroy();
      finish();
    }, patienceMs);
    req.on('error', () => {});
    req.on('data', onData).on('end', finish).on('close', finish);
    ending.onEnd(finish);
  });
  return bytes.toString('latin1') === '0000' ? 'empty' : bytes;
}

export async function answerEmpty(deps: FlowDeps, admitted: Admitted): Promise<void> {
  const { res } = admitted.exchange;
  res.writeHead(200, [...gitHeaders(answerType(admitted.route)), 'Content-Length', '0']);
  res.end();
  await dropRest(admitted);
  conclude(deps, admitted, 'allowed', NOTHING_MOVED);
}
