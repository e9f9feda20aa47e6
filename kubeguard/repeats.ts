// kubectl asks for an exec by WebSocket first, and where that is refused at once again by SPDY: one refusal of one thing,
// so the second leaves no second record.

import { LRUCache } from 'lru-cache';
import { buildTarget, type RequestInfo } from './request-info.ts';

const WITHIN_MS = 10_000;

export interface Repeats {
  /** @param protocol of the Upgrade header; false where none was asked for */
  isRepeat(sessionId: string, info: RequestInfo, code: string, protocol: string | false | undefined): boolean;
}

export function createRepeats(): Repeats {
  const refused = new LRUCache<string, true>({ max: 1_000, ttl: WITHIN_MS });
  return {
    isRepeat(sessionId, info, code, protocol) {
      const name = `${sessionId} ${code} ${buildTarget(info)}`;
      if (protocol && protocol.toLowerCase() === 'websocket') {
        refused.set(name, true);
        return false;
      }
      return protocol !== undefined && protocol !== false && refused.delete(name);
    },
  };
}
