// The control API: how a hub and the command line issue, renew and end sessions. Start here; route.ts says what a call
// is, roles.ts who may make it, problem.ts how one fails, session-routes.ts and its neighbours what there is to call.
// One table of routes serves two fronts, the Unix socket (admin) and, where configured, a TLS address (bearer tokens).
// For each call: who is it, may they, is the input right, do it, answer what the schema declares and nothing else.
// It refuses more calls at once from one caller than it can serve well, so that one hub can't starve the others.

import type { Socket } from 'node:net';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { AuditLog } from '../audit/log.ts';
import { ERROR_CODES, PosternError } from '../common/errors.ts';
import { type Log, silentLog } from '../common/log.ts';
import type { Authenticate } from './auth.ts';
import { openApi } from './openapi.ts';
import { PROBLEM_TYPE, problemOf, toPosternError } from './problem.ts';
import { type Caller, demand } from './roles.ts';
import type { Route } from './route.ts';

/** A kubeconfig of 1 MiB, JSON-escaped, among others. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const CALLS_AT_ONCE = 1024;

export interface FrontOptions {
  readonly routes: readonly Route[];
  readonly version: string;
  readonly authenticate: Authenticate;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly log?: Log;
  /** Of one caller; default 1024. */
  readonly callsAtOnce?: number;
  /** Absent: plain HTTP, for the socket. */
  readonly tls?: object;
}

export type Front = FastifyInstance;

export async function createFront(options: FrontOptions): Promise<Front> {
  const { routes, authenticate, audit, callsAtOnce = CALLS_AT_ONCE } = options;
  const log = options.log ?? silentLog;
  const underWay = new Map<string, number>();

  const settings = {
    logger: false as const,
    bodyLimit: MAX_BODY_BYTES,
    forceCloseConnections: 'idle' as const,
    exposeHeadRoutes: false,
    return503OnClosing: false,
    keepAliveTimeout: 30_000,
    requestTimeout: 60_000,
    routerOptions: { maxParamLength: 512, caseSensitive: true },
    clientErrorHandler: (_error: Error, socket: Socket) => unreadable(socket),
    frameworkErrors: (error: Error, _request: unknown, reply: unknown) => {
      fail(
        reply as FastifyReply,
        new PosternError('invalid_input', 'The path can not be read.', { cause: error }),
      );
    },
  };
  const app: FastifyInstance = options.tls
    ? (fastify({ ...settings, https: options.tls }) as unknown as FastifyInstance)
    : fastify(settings);

  const fail = (reply: FastifyReply, error: PosternError): void => {
    const problem = problemOf(error);
    if (problem.status >= 500) log.error({ err: error }, 'a control call failed');
    reply.code(problem.status).headers({ 'content-type': PROBLEM_TYPE, 'cache-control': 'no-store' });
    if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer realm="postern"');
    if (error.code === 'too_many_requests') reply.header('retry-after', '1');
    // Bytes, because the framework adds a charset to text, which the media type does not have (RFC 9457).
    reply.send(Buffer.from(JSON.stringify(problem)));
  };

  /** A wrong token, a role that overreaches and what policy refuses leave a record; no token at all is only refused. */
  const refused = async (
    request: FastifyRequest,
    actor: string | undefined,
    error: PosternError,
  ): Promise<void> => {
    await audit
      .append(
        {
          action: 'control.refused',
          decision: 'deny',
          actor,
          method: request.method,
          reason: error.message,
          status: ERROR_CODES[error.code].status,
          sourceIp: request.ip,
          userAgent: request.headers['user-agent']?.slice(0, 256),
        },
        'written',
      )
      .catch((cause: unknown) =>
        log.error({ err: cause }, 'a refusal at the control API could not be recorded'),
      );
  };

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    if (text === '') return done(null, undefined);
    try {
      done(null, JSON.parse(String(text)));
    } catch {
      done(new PosternError('invalid_input', 'The body is not JSON.', { key: 'body' }));
    }
  });

  app.setErrorHandler((error, _request, reply) => fail(reply, toPosternError(error)));

  const callers = new WeakMap<object, Caller>();
  app.addHook('onRequest', async (request) => {
    try {
      callers.set(request, authenticate(request.headers));
    } catch (error) {
      if (error instanceof PosternError && request.headers.authorization)
        await refused(request, undefined, error);
      throw error;
    }
  });

  const serve = (route: Route) => async (request: FastifyRequest, reply: FastifyReply) => {
    const caller = callers.get(request);
    if (!caller) throw new PosternError('unauthorized', 'The caller is unknown.');
    const now = underWay.get(caller.actor) ?? 0;
    if (now >= callsAtOnce)
      throw new PosternError('too_many_requests', `${caller.actor} has ${now} calls under way.`, {
        remedy: 'Wait for some of them to end.',
      });
    underWay.set(caller.actor, now + 1);
    try {
      demand(caller, route.right);
      const answer = await route.handle(
        { params: request.params, query: request.query, body: request.body },
        caller,
      );
      reply.code(route.status).headers({ 'content-type': 'application/json', 'cache-control': 'no-store' });
      return reply.send(JSON.stringify(answer));
    } catch (error) {
      if (error instanceof PosternError && ERROR_CODES[error.code].status === 403)
        await refused(request, caller.actor, error);
      throw error;
    } finally {
      const left = (underWay.get(caller.actor) ?? 1) - 1;
      if (left > 0) underWay.set(caller.actor, left);
      else underWay.delete(caller.actor);
    }
  };

  for (const route of routes)
    app.route({ method: route.method, url: route.path.replace(/\{(\w+)\}/g, ':$1'), handler: serve(route) });

  const description = JSON.stringify(openApi(routes, options.version));
  app.get('/v1/openapi.json', async (_request, reply) => reply.type('application/json').send(description));

  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    const methods = routes.filter((route) => matches(route.path, path)).map((route) => route.method);
    if (path === '/v1/openapi.json') methods.push('GET');
    if (methods.length === 0)
      return fail(reply, new PosternError('not_found', 'The control API has no such path.', { remedy: SEE }));
    reply.header('allow', methods.join(', '));
    return fail(reply, new PosternError('method_not_allowed', `The path takes ${methods.join(', ')}.`));
  });

  await app.ready();
  return app;
}

/** Bytes that are no HTTP request, so that there is no answer object either. */
function unreadable(socket: Socket): void {
  if (!socket.writable) return void socket.destroy();
  const body = JSON.stringify(
    problemOf(new PosternError('invalid_input', 'The bytes are not an HTTP/1.1 request.')),
  );
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: ${PROBLEM_TYPE}\r\nConnection: close\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

const SEE = 'GET /v1/openapi.json describes the paths.';

function matches(template: string, path: string): boolean {
  const want = template.split('/');
  const have = path.split('/');
  return (
    want.length === have.length &&
    want.every((part, i) => (part.startsWith('{') ? have[i] !== '' : part === have[i]))
  );
}
