// Sessions: issue, look, renew, end. A session's secrets go through here twice: the credential on its way in (to the
// guard, which takes custody) and the substitute on its way out (in the answer that creates it). Nothing is kept.

import { z } from 'zod';
import { PosternError } from '../common/errors.ts';
import type { Explanation, GitGuard, KubeGuard } from '../sessions/guards.ts';
import type { Counters, GuardName, Session, SessionRegistry } from '../sessions/session.ts';
import { credentialOf, type HostSources } from './custody.ts';
import { type Route, route } from './route.ts';
import * as shape from './schemas.ts';
import type { SessionRecords } from './session-records.ts';

export interface SessionDeps {
  readonly sessions: Pick<
    SessionRegistry,
    'get' | 'list' | 'renew' | 'revoke' | 'revokeLease' | 'removeGrant'
  >;
  /** Absent: the guard is switched off by configuration. */
  readonly git?: GitGuard;
  readonly kube?: KubeGuard;
  readonly host: HostSources;
  readonly records: Pick<SessionRecords, 'as'>;
  /** What a guard would decide; absent where it is off. */
  readonly explain: { readonly [guard in GuardName]?: Explain };
  now(): number;
}

export type Explain = (
  sessionId: string,
  request: {
    readonly method?: string;
    readonly path: string;
    /** Of a push. */
    readonly refs?: readonly { readonly ref: string; readonly operation: 'create' | 'update' | 'delete' }[];
  },
) => Promise<Explanation>;

export function sessionRoutes(deps: SessionDeps): Route[] {
  const view = ({ session, counters }: { session: Session; counters: Counters }) =>
    sessionView(session, counters, deps.now());

  return [
    route({
      method: 'POST',
      path: '/v1/sessions/git',
      summary: 'Take credentials into custody and issue a session at the git guard',
      right: 'sessions:write',
      body: shape.gitSessionRequest,
      status: 201,
      answer: shape.gitSessionAnswer,
      async run({ body }, caller) {
        const guard = deps.git ?? off('git');
        const credentials = await Promise.all(
          body.credentials.map(async ({ token, valueFrom, ...rest }, i) => ({
            ...present(rest),
            token: await credentialOf(
              { value: token, valueFrom },
              `credentials[${i}]`,
              'token',
              caller,
              deps.host,
            ),
          })),
        );
        return guard.issue({ ...terms(body), credentials, actor: caller.actor });
      },
    }),
    route({
      method: 'POST',
      path: '/v1/sessions/kube',
      summary: 'Take kubeconfigs into custody and issue a session at the Kubernetes guard',
      right: 'sessions:write',
      body: shape.kubeSessionRequest,
      status: 201,
      answer: shape.kubeSessionAnswer,
      async run({ body }, caller) {
        const guard = deps.kube ?? off('kube');
        const clusters = await Promise.all(
          body.clusters.map(async ({ kubeconfig, valueFrom, ...rest }, i) => ({
            ...present(rest),
            kubeconfig: await credentialOf(
              { value: kubeconfig, valueFrom },
              `clusters[${i}]`,
              'kubeconfig',
              caller,
              deps.host,
            ),
          })),
        );
        return guard.issue({ ...terms(body), clusters, actor: caller.actor });
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions',
      summary: 'Sessions, newest first; no token and no credential',
      right: 'sessions:read',
      query: z.strictObject({ leaseId: shape.leaseId.optional(), guard: z.enum(['git', 'kube']).optional() }),
      answer: z.object({ sessions: z.array(shape.sessionView) }),
      async run({ query }) {
        const found = await deps.sessions.list(present(query));
        return { sessions: found.map(view).sort((a, b) => b.createdAt - a.createdAt) };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/sessions/{id}',
      summary: 'One session',
      right: 'sessions:read',
      params: shape.id,
      answer: shape.sessionView,
      async run({ params }) {
        return view((await deps.sessions.get(params.id)) ?? unknownSession());
      },
    }),
    route({
      method: 'POST',
      path: '/v1/sessions/{id}/renew',
      summary: 'Move the end of a live session; the token in the sandbox stays the same',
      right: 'sessions:write',
      params: shape.id,
      body: shape.renewRequest,
      optionalBody: true,
      answer: z.object({ sessionId: z.string(), expiresAt: shape.time, hardExpiresAt: shape.time }),
      async run({ params, body }, { actor }) {
        if (!(await deps.sessions.get(params.id))) unknownSession();
        const renewed = await deps.records.as(actor, () => deps.sessions.renew(params.id, body.ttl));
        const { id, expiresAt, hardExpiresAt } = renewed;
        return { sessionId: id, expiresAt, hardExpiresAt };
      },
    }),
    route({
      method: 'POST',
      path: '/v1/sessions/{id}/explain',
      summary: 'What the guard would decide for a request of this session, without doing it',
      right: 'sessions:read',
      params: shape.id,
      body: shape.explainRequest,
      answer: shape.explainAnswer,
      async run({ params, body }) {
        const { guard, method, path, refs } = body;
        const { session } = (await deps.sessions.get(params.id)) ?? unknownSession();
        if (session.guard !== guard)
          throw new PosternError('invalid_input', `The session is one of the ${session.guard} guard.`, {
            key: 'guard',
            remedy: `Ask postern explain ${session.guard}.`,
          });
        const explain = deps.explain[guard] ?? off(guard);
        return explain(params.id, { path, ...present({ method, refs }) });
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/sessions/{id}',
      summary: 'Revoke a session; answers when nothing of it can be used any more',
      right: 'sessions:write',
      params: shape.id,
      answer: z.object({ sessionId: z.string(), revoked: z.literal(true) }),
      async run({ params }, { actor }) {
        const revoke = () => deps.sessions.revoke(params.id, `revoked by ${actor}`);
        if (!(await deps.records.as(actor, revoke))) unknownSession();
        return { sessionId: params.id, revoked: true as const };
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/leases/{id}/sessions',
      summary: 'Revoke every session of a lease',
      right: 'sessions:write',
      params: z.strictObject({ id: shape.leaseId }),
      answer: z.object({ leaseId: z.string(), revoked: z.array(z.string()) }),
      async run({ params }, { actor }) {
        const revoke = () => deps.sessions.revokeLease(params.id, `lease revoked by ${actor}`);
        const ended = await deps.records.as(actor, revoke);
        return { leaseId: params.id, revoked: ended.map((session) => session.id) };
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/sessions/{id}/grants/{grantId}',
      summary: "Take one grant's credential out of a live session",
      right: 'sessions:write',
      params: shape.id.extend({ grantId: z.string().min(1).max(253) }),
      answer: z.object({ sessionId: z.string(), grantId: z.string(), removed: z.literal(true) }),
      async run({ params }, { actor }) {
        const { id, grantId } = params;
        const remove = () => deps.sessions.removeGrant(id, grantId, `grant removed by ${actor}`);
        if (!(await deps.records.as(actor, remove))) unknownSession();
        return { sessionId: id, grantId, removed: true as const };
      },
    }),
  ];
}

export function sessionView(
  session: Session,
  counters: Counters,
  now: number,
): z.input<typeof shape.sessionView> {
  const { id, revokedAt, ...rest } = session;
  const state = revokedAt !== undefined ? 'revoked' : now >= session.expiresAt ? 'expired' : 'live';
  const labels = present(session.labels) as { [name: string]: string };
  return { ...rest, ...(revokedAt !== undefined && { revokedAt }), labels, sessionId: id, state, counters };
}

function terms(body: {
  leaseId: string;
  ttl?: number | undefined;
  labels?: Record<string, string> | undefined;
}) {
  return { leaseId: body.leaseId, ...present({ ttl: body.ttl, labels: body.labels }) };
}

/** Without the members that are `undefined`: absent and undefined are two things to the rooms. */
function present<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

function off(guard: 'git' | 'kube'): never {
  throw new PosternError(
    'guard_unavailable',
    `The ${guard} guard is switched off, so no session can be issued.`,
    {
      key: `${guard}.enabled`,
      remedy: `Set ${guard}.enabled to true and restart the server.`,
    },
  );
}

function unknownSession(): never {
  throw new PosternError('not_found', 'There is no session with this id.', {
    key: 'id',
    remedy: 'postern session list shows those that exist.',
  });
}
