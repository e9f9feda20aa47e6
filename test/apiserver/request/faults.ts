// What a server, or something in front of it, may also answer: a test sets a function that looks at each request and
// names what to do instead of, or beside, the usual.

import { failure, tooManyRequests } from '../objects/status.ts';
import type { Call } from './http.ts';
import { sendBytes, sendError, warn } from './http.ts';
import type { RequestRecord } from './records.ts';

export type Fault =
  /** A Warning header; the request goes on. */
  | { kind: 'warning'; text: string }
  /** Further headers on whatever the answer is. */
  | { kind: 'headers'; headers: Record<string, string | string[]> }
  | { kind: 'delay'; ms: number }
  | { kind: 'too-many'; retryAfter: number }
  | { kind: 'redirect'; location: string; code?: number }
  | { kind: 'status'; code: number; reason: string; message: string; headers?: Record<string, string> }
  | { kind: 'raw'; code: number; headers: Record<string, string>; body: string }
  /** Quotes what it was given as a credential, in each place where an answer could hold it. */
  | { kind: 'echo-credential' }
  /** Takes the request and never answers. */
  | { kind: 'hang' }
  /** Answers a body that never ends, a piece every so many milliseconds. */
  | { kind: 'trickle'; piece: string; every: number }
  /** Closes the connection without an answer. */
  | { kind: 'cut' };

export type Interceptor = (request: RequestRecord) => Fault | undefined;

/** @returns whether the request goes on to its handler */
export async function apply(fault: Fault, call: Pick<Call, 'request' | 'response'> & Call): Promise<boolean> {
  const { response, request } = call;
  switch (fault.kind) {
    case 'warning':
      warn(call, fault.text);
      return true;
    case 'headers':
      for (const [name, value] of Object.entries(fault.headers)) response.setHeader(name, value);
      return true;
    case 'delay':
      await new Promise((resolve) => setTimeout(resolve, fault.ms).unref());
      return true;
    case 'too-many':
      sendError(call, tooManyRequests(fault.retryAfter));
      return false;
    case 'redirect':
      response.setHeader('Location', fault.location);
      sendBytes(call, fault.code ?? 307, Buffer.from('moved\n'), 'text/plain');
      return false;
    case 'status':
      for (const [name, value] of Object.entries(fault.headers ?? {})) response.setHeader(name, value);
      sendError(call, failure(fault.code, fault.reason, fault.message));
      return false;
    case 'raw':
      for (const [name, value] of Object.entries(fault.headers)) response.setHeader(name, value);
      sendBytes(call, fault.code, Buffer.from(fault.body), fault.headers['Content-Type'] ?? 'text/plain');
      return false;
    case 'echo-credential': {
      const given = request.headers.authorization ?? '';
      response.setHeader('X-Echo', given);
      response.setHeader('Set-Cookie', `session=${encodeURIComponent(given)}`);
      response.setHeader('WWW-Authenticate', `Bearer realm="${given}"`);
      sendError(call, failure(401, 'Unauthorized', `the credential ${given} is not valid`));
      return false;
    }
    case 'hang':
      request.resume();
      return false;
    case 'trickle': {
      response.statusCode = 200;
      response.setHeader('Content-Type', 'text/plain');
      response.flushHeaders();
      const timer = setInterval(() => response.write(fault.piece), fault.every);
      timer.unref();
      response.on('close', () => clearInterval(timer));
      return false;
    }
    case 'cut':
      request.socket.destroy();
      return false;
  }
}
