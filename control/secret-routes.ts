// Secrets and grants. A payload goes in and never comes out. A reference (`valueFrom`) points at the server's own host,
// so it is admin's alone, here as for sessions: an operator who could name a file could lease the key of the store.

import { z } from 'zod';
import type { Broker } from '../broker/broker.ts';
import { grantView, secretView } from '../broker/views.ts';
import type { Credential } from '../common/credential.ts';
import type { ValueFrom } from '../common/value-from.ts';
import { brokerCaller } from './broker-caller.ts';
import * as shape from './broker-schemas.ts';
import { type Caller, demand } from './roles.ts';
import { type Route, route } from './route.ts';
import type { SessionRecords } from './session-records.ts';

export interface BrokerDeps {
  readonly broker: Broker;
  readonly records: Pick<SessionRecords, 'as'>;
  now(): number;
}

export function secretRoutes(deps: BrokerDeps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/secrets',
      summary: 'Mint a secret: seal a payload, or note where it is',
      right: 'secrets:write',
      body: shape.mintRequest,
      status: 201,
      answer: shape.secretAnswer,
      async run({ body }, caller) {
        const { payload, valueFrom, owner, ...rest } = body;
        const input = {
          ...rest,
          ...source(payload, valueFrom, caller),
          owner,
          personal: owner !== undefined,
        };
        return secretView(await deps.broker.secrets.mint(input, brokerCaller(caller)));
      },
    }),
    route({
      method: 'POST',
      path: '/v1/secrets/import',
      summary: 'Import a flat file of variables: an env secret and an endless grant to any for each',
      right: 'secrets:write',
      body: shape.importRequest,
      answer: shape.importAnswer,
      run: ({ body }, caller) => deps.broker.secrets.importFlat(bytes(body.payload), brokerCaller(caller)),
    }),
    route({
      method: 'GET',
      path: '/v1/secrets',
      summary: 'Secrets that the caller may see, by name; no payload',
      right: 'secrets:read',
      answer: z.object({ secrets: z.array(shape.secretAnswer) }),
      run: async (_input, caller) => ({
        secrets: (await deps.broker.secrets.list(brokerCaller(caller))).map(secretView),
      }),
    }),
    route({
      method: 'GET',
      path: '/v1/secrets/{id}',
      summary: 'One secret, by id or name',
      right: 'secrets:read',
      params: shape.ref,
      answer: shape.secretAnswer,
      run: async ({ params }, caller) =>
        secretView(await deps.broker.secrets.show(params.id, brokerCaller(caller))),
    }),
    route({
      method: 'POST',
      path: '/v1/secrets/{id}/payload',
      summary: 'Replace the payload; live sessions spend the new one from their next request on',
      right: 'secrets:write',
      params: shape.ref,
      body: shape.replaceRequest,
      answer: shape.secretAnswer,
      async run({ params, body }, caller) {
        const input = { secret: params.id, ...source(body.payload, body.valueFrom, caller) };
        const replace = () => deps.broker.secrets.replace(input, brokerCaller(caller));
        return secretView(await deps.records.as(caller.actor, replace));
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/secrets/{id}',
      summary: 'Delete a secret and revoke its grants; answers when nothing of it can be used any more',
      right: 'secrets:write',
      params: shape.ref,
      answer: z.object({ secretId: z.string(), name: z.string(), deleted: z.literal(true) }),
      async run({ params }, caller) {
        const remove = () => deps.broker.secrets.delete(params.id, brokerCaller(caller));
        const { id, name } = await deps.records.as(caller.actor, remove);
        return { secretId: id, name, deleted: true as const };
      },
    }),
  ];
}

export function grantRoutes(deps: BrokerDeps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/grants',
      summary: 'Grant a secret to a subject, under constraints, for a time (default 24h)',
      right: 'grants:write',
      body: shape.grantRequest,
      status: 201,
      answer: shape.grantAnswer,
      run: async ({ body }, caller) =>
        grantView(await deps.broker.grants.create(body, brokerCaller(caller)), deps.now()),
    }),
    route({
      method: 'GET',
      path: '/v1/grants',
      summary: 'Grants, newest first',
      right: 'grants:read',
      query: shape.grantQuery,
      answer: z.object({ grants: z.array(shape.grantAnswer) }),
      async run({ query }, caller) {
        const { active, ...filter } = query;
        const found = await deps.broker.grants.list(
          { ...filter, activeOnly: active === 'true' },
          brokerCaller(caller),
        );
        return { grants: found.map((grant) => grantView(grant, deps.now())) };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/grants/{id}',
      summary: 'One grant',
      right: 'grants:read',
      params: shape.ref,
      answer: shape.grantAnswer,
      run: async ({ params }, caller) =>
        grantView(await deps.broker.grants.show(params.id, brokerCaller(caller)), deps.now()),
    }),
    route({
      method: 'DELETE',
      path: '/v1/grants/{id}',
      summary: 'Revoke a grant and take its credential out of live sessions; the others go on',
      right: 'grants:write',
      params: shape.ref,
      answer: shape.grantAnswer,
      async run({ params }, caller) {
        const revoke = () => deps.broker.grants.revoke(params.id, brokerCaller(caller));
        return grantView(await deps.records.as(caller.actor, revoke), deps.now());
      },
    }),
  ];
}

function source(
  payload: Credential | undefined,
  reference: ValueFrom | undefined,
  caller: Caller,
): { readonly payload: Buffer | undefined; readonly reference: ValueFrom | undefined } {
  if (reference) demand(caller, 'host:read');
  return { payload: payload && bytes(payload), reference };
}

/** The broker zeroes them. */
function bytes(payload: Credential): Buffer {
  return Buffer.from(payload.reveal(), 'utf8');
}
