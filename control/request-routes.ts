// Access requests: whoever lacks a grant asks for it, another person decides. What an approver may hand out is the
// role's: an approver keeps to narrow subjects and to a week, an admin to what a grant may be.

import { z } from 'zod';
import { type Delegation, MAX_DELEGATION_TTL } from '../broker/requests/rules.ts';
import { grantView, requestView, useView } from '../broker/views.ts';
import { PosternError } from '../common/errors.ts';
import { brokerCaller, personCaller } from './broker-caller.ts';
import * as shape from './broker-schemas.ts';
import type { Caller } from './roles.ts';
import { type Route, route } from './route.ts';
import type { BrokerDeps } from './secret-routes.ts';

export function requestRoutes(deps: BrokerDeps): Route[] {
  const params = shape.ref;
  const view = (request: Parameters<typeof requestView>[0]) => requestView(request, deps.now());
  return [
    route({
      method: 'POST',
      path: '/v1/requests',
      summary: 'Ask for a grant that does not exist yet, with a reason',
      right: 'requests:open',
      body: shape.openRequestBody,
      status: 201,
      answer: shape.requestAnswer,
      run: async ({ body }, caller) => view(await deps.broker.requests.open(body, personCaller(caller))),
    }),
    route({
      method: 'GET',
      path: '/v1/requests',
      summary: 'Requests, newest first; the role requester sees its own',
      right: 'requests:read',
      query: shape.requestQuery,
      answer: z.object({ requests: z.array(shape.requestAnswer) }),
      async run({ query }, caller) {
        const { state, ...filter } = query;
        const found = await deps.broker.requests.list(filter, brokerCaller(caller));
        const shown = found.filter((request) => sees(caller, request)).map(view);
        return { requests: shown.filter((one) => state === undefined || one.state === state) };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/requests/{id}',
      summary: 'One request, its content hash, and the leases that its grant was used for',
      right: 'requests:read',
      params,
      answer: shape.requestAnswer.extend({ uses: z.array(shape.useAnswer) }),
      async run({ params: { id } }, caller) {
        const request = await deps.broker.requests.show(id);
        if (!sees(caller, request))
          throw new PosternError('not_found', 'There is no such request of yours.', { key: 'request' });
        return { ...view(request), uses: (await deps.broker.requests.uses(id)).map(useView) };
      },
    }),
    route({
      method: 'POST',
      path: '/v1/requests/{id}/approve',
      summary: 'Approve what was read, by its content hash: makes exactly one grant',
      right: 'requests:decide',
      params,
      body: shape.approveBody,
      answer: shape.requestAnswer.extend({ grant: shape.grantAnswer }),
      async run({ params: { id }, body }, caller) {
        const { request, grant } = await deps.broker.requests.approve(
          { requestId: id, ...body, delegation: delegation(caller) },
          personCaller(caller),
        );
        return { ...view(request), grant: grantView(grant, deps.now()) };
      },
    }),
    route({
      method: 'POST',
      path: '/v1/requests/{id}/deny',
      summary: 'Deny what was read, with a note that says why',
      right: 'requests:decide',
      params,
      body: shape.denyBody,
      answer: shape.requestAnswer,
      run: async ({ params: { id }, body }, caller) =>
        view(await deps.broker.requests.deny({ requestId: id, ...body }, personCaller(caller))),
    }),
    route({
      method: 'POST',
      path: '/v1/requests/{id}/withdraw',
      summary: "Withdraw a request of one's own",
      right: 'requests:open',
      params,
      answer: shape.requestAnswer,
      run: async ({ params: { id } }, caller) =>
        view(await deps.broker.requests.withdraw(id, personCaller(caller))),
    }),
  ];
}

function sees(caller: Caller, { requestedBy }: { readonly requestedBy: string }): boolean {
  return caller.role !== 'requester' || caller.actor === requestedBy;
}

function delegation({ role }: Caller): Delegation {
  return role === 'admin' ? { maxTtl: MAX_DELEGATION_TTL, allowWildcardSubject: true } : {};
}
