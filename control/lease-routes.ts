// Leases: what one executor may use now, as bytes for whoever runs the workload. A lease whose delivery can't be put
// together is released again: nobody would hold it. Calls answer when the records of what they did are kept.

import { z } from 'zod';
import { isEmpty, type Lease, timeLeft } from '../broker/material.ts';
import { leaseView } from '../broker/views.ts';
import { PosternError } from '../common/errors.ts';
import { deliverLease } from '../delivery/lease.ts';
import { leaseAnswer, sandboxLeaseDir } from '../delivery/lease-answer.ts';
import type { SessionRegistry } from '../sessions/session.ts';
import { brokerCaller } from './broker-caller.ts';
import * as shape from './lease-schemas.ts';
import { type Route, route } from './route.ts';
import { leaseId } from './schemas.ts';
import type { BrokerDeps } from './secret-routes.ts';
import { sessionView } from './session-routes.ts';

export interface LeaseDeps extends BrokerDeps {
  readonly sessions: Pick<SessionRegistry, 'get'>;
  /** PEM */
  caBundle(): string;
}

type Place = { readonly dir?: string | undefined; readonly xdgConfigHome?: string | undefined };

const params = z.strictObject({ id: leaseId });

export function leaseRoutes(deps: LeaseDeps): Route[] {
  const deliver = (lease: Lease, { dir, xdgConfigHome }: Place): z.input<typeof shape.leaseDelivery> => {
    const delivery = deliverLease(lease, {
      dir: dir ?? sandboxLeaseDir(lease.id),
      ca: deps.caBundle(),
      ...(xdgConfigHome !== undefined && { xdgConfigHome }),
    });
    return {
      id: lease.id,
      ...leaseAnswer(lease, delivery),
      secondsLeft: timeLeft(lease, deps.now()) / 1000,
      empty: isEmpty(lease),
    };
  };
  const view = async (lease: Parameters<typeof leaseView>[0]): Promise<shape.LeaseView> => {
    const shown = leaseView(lease, deps.now());
    const sessions = await Promise.all(
      shown.sessions.map(async (held) => {
        const found = await deps.sessions.get(held.sessionId);
        const state = found ? sessionView(found.session, found.counters, deps.now()).state : 'revoked';
        return { ...held, state };
      }),
    );
    return { ...shown, sessions };
  };

  return [
    route({
      method: 'POST',
      path: '/v1/leases',
      summary: 'Lease what an executor may use for a project now: variables, files, mounts, devices',
      right: 'leases:write',
      body: shape.leaseRequest,
      status: 201,
      answer: shape.leaseDelivery,
      async run({ body }, caller) {
        const { dir, xdgConfigHome, ...input } = body;
        const by = brokerCaller(caller);
        return deps.records.as(caller.actor, async () => {
          const lease = await deps.broker.leases.create(input, by);
          try {
            return deliver(lease, { dir, xdgConfigHome });
          } catch (error) {
            await deps.broker.leases.release(lease.id, by);
            throw error;
          }
        });
      },
    }),
    route({
      method: 'GET',
      path: '/v1/leases',
      summary: 'Live leases, newest first, without what they delivered',
      right: 'leases:read',
      query: shape.leaseQuery,
      answer: z.object({ leases: z.array(shape.leaseAnswer) }),
      run: async ({ query }) => ({
        leases: await Promise.all((await deps.broker.leases.list(query)).map(view)),
      }),
    }),
    route({
      method: 'GET',
      path: '/v1/leases/{id}',
      summary: 'One lease',
      right: 'leases:read',
      params,
      answer: shape.leaseAnswer,
      run: async ({ params: { id } }) => view(await deps.broker.leases.show(id)),
    }),
    route({
      method: 'POST',
      path: '/v1/leases/{id}/renew',
      summary: 'Work a lease out anew and move its end; sessions that stay keep their tokens',
      right: 'leases:write',
      params,
      body: shape.renewLeaseRequest,
      optionalBody: true,
      answer: shape.leaseDelivery,
      async run({ params: { id }, body }, caller) {
        const { ttl, ...place } = body;
        const renew = () => deps.broker.leases.renew({ leaseId: id, ttl }, brokerCaller(caller));
        return deliver(await deps.records.as(caller.actor, renew), place);
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/leases/{id}',
      summary: 'Release a lease; answers when nothing of its sessions can be used any more',
      right: 'leases:write',
      params,
      answer: z.object({ leaseId: z.string(), released: z.boolean().describe('whether there was one') }),
      async run({ params: { id } }, caller) {
        const release = () => deps.broker.leases.release(id, brokerCaller(caller));
        return { leaseId: id, released: await deps.records.as(caller.actor, release) };
      },
    }),
    route({
      method: 'POST',
      path: '/v1/leases/{id}/acknowledge',
      summary: 'Say whether what a revoked grant delivered is gone from the workload',
      right: 'leases:write',
      params,
      body: shape.acknowledgeRequest,
      answer: z.object({ leaseId: z.string(), grantId: z.string(), scrubbed: z.boolean() }),
      async run({ params: { id }, body }, caller) {
        await deps.broker.leases.acknowledge({ leaseId: id, ...body }, brokerCaller(caller));
        return { leaseId: id, grantId: body.grantId, scrubbed: body.scrubbed };
      },
    }),
    route({
      method: 'POST',
      path: '/v1/access',
      summary: 'Ask, before acting, whether a requester has a grant for a repository or a host',
      right: 'leases:write',
      body: shape.accessRequest,
      answer: z.object({ decision: z.literal('allow').describe('else the call is refused: policy_refused') }),
      async run({ body }, caller) {
        const { repo, host, permission, ...requester } = body;
        const { access } = deps.broker;
        const by = brokerCaller(caller);
        if (repo !== undefined && host === undefined) await access.checkRepo(requester, repo, by, permission);
        else if (host !== undefined && repo === undefined && permission === undefined)
          await access.checkHost(requester, host, by);
        else
          throw new PosternError('invalid_input', 'Ask about either a repo or a host.', {
            key: 'repo',
          });
        return { decision: 'allow' as const };
      },
    }),
  ];
}
