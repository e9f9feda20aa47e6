// What the server says of itself: what runs and with what, and the authority that its guards are trusted by.

import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { type Route, route } from './route.ts';
import { time } from './schemas.ts';

const guardStatus = z.object({
  enabled: z.boolean(),
  listen: z.string().optional().describe('host:port in use'),
  advertise: z.string().optional().describe('what a sandbox connects to'),
  sessions: z.int().optional().describe('live ones'),
});

export const statusAnswer = z.object({
  version: z.string(),
  startedAt: z.string(),
  ready: z.boolean(),
  checks: z
    .array(
      z.object({
        name: z.string(),
        ok: z.boolean(),
        degraded: z.literal(true).optional().describe('ready, and somebody should look at it'),
        reason: z.string().optional(),
      }),
    )
    .readonly()
    .describe('what readiness is made of'),
  git: guardStatus,
  kube: guardStatus,
  control: z.object({ socket: z.string(), listen: z.string().optional() }),
  ops: z.object({ listen: z.string() }),
  store: z.string().describe('sqlite or postgres'),
  key: z.object({ primary: z.string(), source: z.string().describe('env, file, secretKeyRef or generated') }),
  audit: z.object({ dir: z.string(), onFailure: z.string() }),
  broker: z
    .object({
      leases: z.record(z.string(), z.int()).describe('live ones by the kind of secret in them'),
      requestsWaiting: z.int(),
      rowsToRotate: z.int().describe('sealed under another key than the primary'),
    })
    .optional(),
});
export type Status = z.output<typeof statusAnswer>;

export const caAnswer = z.object({
  pem: z.string().describe('the bundle that a sandbox trusts for the guards'),
  certificates: z.array(
    z.object({
      subject: z.string(),
      fingerprint256: z.string(),
      notBefore: z.string(),
      notAfter: z.string(),
    }),
  ),
});

export const rotateRequest = z.strictObject({
  now: z.boolean().optional().describe('the old one is trusted no more: who has only that is cut off'),
});

export const rotateAnswer = caAnswer.extend({
  takesOverAt: time.describe('when the new authority signs'),
  underWay: z.boolean().describe('whether it had begun before this call'),
});

export type RotateAnswer = z.output<typeof rotateAnswer>;

export interface ServerDeps {
  status(): Promise<Status>;
  /** PEM */
  caBundle(): string;
  /** @returns when the new authority signs, in milliseconds */
  rotateCa(actor: string, now: boolean): Promise<{ takesOverAt: number; underWay: boolean }>;
}

export function serverRoutes(deps: ServerDeps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/status',
      summary: 'What runs, where and with what',
      right: 'server:read',
      answer: statusAnswer,
      run: () => deps.status(),
    }),
    route({
      method: 'GET',
      path: '/v1/ca',
      summary: "The guards' certificate authority, as ca.pem holds it",
      right: 'server:read',
      answer: caAnswer,
      run: async () => describeBundle(deps.caBundle()),
    }),
    route({
      method: 'POST',
      path: '/v1/ca/rotate',
      summary:
        'Begin to replace the authority: the new one is in the bundle at once, and signs when nothing trusts the old one alone',
      right: 'server:write',
      body: rotateRequest,
      optionalBody: true,
      answer: rotateAnswer,
      async run({ body }, { actor }) {
        const { takesOverAt, underWay } = await deps.rotateCa(actor, body.now ?? false);
        return { takesOverAt, underWay, ...describeBundle(deps.caBundle()) };
      },
    }),
  ];
}

export function describeBundle(pem: string): z.output<typeof caAnswer> {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const certificates = blocks.map((block) => {
    const certificate = new X509Certificate(block);
    return {
      subject: certificate.subject.replaceAll('\n', ', '),
      fingerprint256: certificate.fingerprint256,
      notBefore: certificate.validFromDate.toISOString(),
      notAfter: certificate.validToDate.toISOString(),
    };
  });
  return { pem, certificates };
}
