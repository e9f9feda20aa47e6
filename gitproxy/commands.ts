// Reads the command list of a push off the request: just as many bytes as it takes, then the rest waits. The chunks that
// were read are kept as they came; they are the very bytes that are judged and, if the push is allowed, sent first.

import type { IncomingMessage } from 'node:http';
import type { Ending } from './flow.ts';
import { createPushHeadReader, type PushHead, PushHeadError } from './receive-pack.ts';

export type CommandsRead =
  | { readonly kind: 'head'; readonly head: PushHead; readonly chunks: readonly Buffer[] }
  | { readonly kind: 'refused'; readonly error: PushHeadError }
  /** The client left, or sent nothing for too long. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'ended' };

export function readCommands(
  req: IncomingMessage,
  patienceMs: number,
  ending: Ending,
): Promise<CommandsRead> {
  return new Promise((resolve) => {
    const reader = createPushHeadReader();
    const chunks: Buffer[] = [];
    const finish = (what: CommandsRead): void => {
      clearTimeout(timer);
      req.off('data', onData).off('end', onEnd).off('close', onGone);
      req.pause();
      resolve(what);
    };
    const onData = (chunk: Buffer): void => {
      timer.refresh();
      chunks.push(chunk);
      try {
        const head = reader.push(chunk);
        if (head) finish({ kind: 'head', head, chunks });
      } catch (error) {
        if (error instanceof PushHeadError) finish({ kind: 'refused', error });
        else throw error;
      }
    };
    const onEnd = (): void => {
      const refusal = {
        code: 'malformed_request',
        rule: 'framing',
        message: 'the command list is cut short',
      } as const;
      finish({ kind: 'refused', error: new PushHeadError(refusal) });
    };
    const onGone = (): void => finish({ kind: 'gone' });
    const timer = setTimeout(() => {
      req.socket.destroy();
      onGone();
    }, patienceMs);
    req.on('error', () => {});
    req.on('data', onData).on('end', onEnd).on('close', onGone);
    ending.onEnd(() => finish({ kind: 'ended' }));
    if (req.destroyed && !req.readableEnded) onGone();
  });
}
