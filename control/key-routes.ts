// Key-encryption keys: which there are, what each seals, a new one, rotation while serving, retirement. Admin's alone but
// for looking. A rotation answers when it is done; `status` tells how far it is. One at a time: two would only race for
// the same rows. It ends between two batches when the server stops, and the next one does the rest.

import { z } from 'zod';
import type { Action } from '../audit/event.ts';
import type { AuditLog } from '../audit/log.ts';
import { rfc3339 } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { KeyInfo } from '../keyring/keyring.ts';
import { type KeyAdmin, retireKey } from '../keyring/retire.ts';
import { rotateKeys } from '../keyring/rotate.ts';
import { keyStatus } from '../keyring/status.ts';
import * as shape from './broker-schemas.ts';
import { type Route, route } from './route.ts';

export interface KeyDeps {
  readonly keys: KeyAdmin;
  readonly audit: Pick<AuditLog, 'append'>;
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal;
}

export function keyRoutes(deps: KeyDeps): Route[] {
  let rotating = false;
  const record = (action: Action, actor: string, reason: string, ok = true): Promise<void> =>
    deps.audit.append({ action, decision: ok ? 'allow' : 'error', actor, reason }, 'durable');
  return [
    route({
      method: 'GET',
      path: '/v1/keys',
      summary: 'Every key that there ever was, oldest first',
      right: 'keys:read',
      answer: z.object({ keys: z.array(shape.keyAnswer) }),
      run: async () => ({ keys: (await deps.keys.keyring.list()).map(view) }),
    }),
    route({
      method: 'GET',
      path: '/v1/keys/status',
      summary: 'What each key still seals, and how rotations went',
      right: 'keys:read',
      answer: shape.keyStatusAnswer,
      async run() {
        const { primary, keys, usage, unrotated, rotations } = await keyStatus(deps.keys);
        return {
          primary,
          keys: keys.map(view),
          usage: usage.map(({ id, rows, sets }) => ({ id, rows, sets: { ...sets } })),
          unrotated,
          rotations: rotations.map(({ startedAt, updatedAt, finishedAt, ...rest }) => ({
            ...rest,
            startedAt: rfc3339(startedAt),
            updatedAt: rfc3339(updatedAt),
            ...(finishedAt !== undefined && { finishedAt: rfc3339(finishedAt) }),
          })),
        };
      },
    }),
    route({
      method: 'POST',
      path: '/v1/keys',
      summary: 'Make a key that seals from now on; the others keep opening what they sealed',
      right: 'keys:write',
      status: 201,
      answer: shape.keyAnswer,
      async run(_input, { actor }) {
        const added = await deps.keys.keyring.addKey(actor);
        await record('key.add', actor, `key ${added.id}`);
        return view(added);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/keys/rotate',
      summary: 'Put every sealed row under the primary key while the server serves; can be repeated',
      right: 'keys:write',
      body: shape.rotateBody,
      optionalBody: true,
      answer: shape.rotationAnswer,
      async run({ body }, { actor }) {
        if (rotating)
          throw new PosternError('conflict', 'A rotation is under way in this server.', {
            remedy: 'postern key status shows how far it is.',
          });
        rotating = true;
        try {
          const { newKey = false, dryRun = false } = body;
          const report = await rotateKeys(deps.keys, { actor, newKey, dryRun, signal: deps.stopping });
          const { to, rewrapped, failed, complete } = report;
          if (!dryRun)
            await record(
              'key.rotate',
              actor,
              `to key ${to}: ${rewrapped} rows${failed > 0 ? `, ${failed} failed` : ''}`,
              complete,
            );
          return { ...report, sets: { ...report.sets } };
        } finally {
          rotating = false;
        }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/keys/{id}/retire',
      summary: 'Destroy a key that seals nothing any more',
      right: 'keys:write',
      params: shape.ref,
      answer: shape.keyAnswer,
      async run({ params: { id } }, { actor }) {
        const retired = await retireKey(deps.keys, id, actor);
        await record('key.retire', actor, `key ${retired.id}`);
        return view(retired);
      },
    }),
  ];
}

function view({ createdAt, ...key }: KeyInfo): z.input<typeof shape.keyAnswer> {
  const { retiredAt, ...rest } = key;
  return {
    ...rest,
    createdAt: rfc3339(createdAt),
    ...(retiredAt !== undefined && { retiredAt: rfc3339(retiredAt) }),
  };
}
