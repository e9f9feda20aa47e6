// The audit trail over the API: the same filters as on the command line, newest last, in pages; and its verification.
// Both read the trail's own files, apart from the thread that writes them.

import { z } from 'zod';
import type { AuditRecord } from '../audit/event.ts';
import { type AuditQuery, queryAudit } from '../audit/query.ts';
import { verifyAudit } from '../audit/verify.ts';
import { safeRef } from '../broker/safe-ref.ts';
import { parseDuration } from '../common/duration.ts';
import { PosternError } from '../common/errors.ts';
import { type Route, route } from './route.ts';

export interface AuditDeps {
  readonly auditDir: string;
  now(): number;
}

const MAX_PAGE = 10_000;
const number = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

const auditQuery = z.strictObject({
  sessionId: z.string().max(253).optional(),
  leaseId: z.string().max(253).optional(),
  action: z.string().max(64).optional(),
  decision: z.enum(['allow', 'deny', 'error']).optional(),
  since: z.string().max(40).optional().describe('RFC 3339, or a duration back from now'),
  until: z.string().max(40).optional(),
  after: number.optional().describe('seq; the page that follows it, oldest first'),
  limit: number.optional().describe('how many; without `after` the newest (default 1000, at most 10000)'),
});

export const auditAnswer = z.object({
  records: z.array(z.custom<AuditRecord>((value) => typeof value === 'object')).describe('oldest first'),
});

export const verifyAnswer = z.object({
  ok: z.boolean(),
  records: z.int(),
  first: z.int().optional(),
  last: z.int().optional(),
  checkpoints: z.int(),
  signedUpTo: z.int().optional().describe('the highest record that a signature vouches for'),
  break: z
    .object({ kind: z.string(), seq: z.int(), file: z.string(), line: z.int(), message: z.string() })
    .optional()
    .describe('the first'),
});

export function auditRoutes(deps: AuditDeps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/audit',
      summary: 'Records of the audit trail',
      right: 'audit:read',
      query: auditQuery,
      answer: auditAnswer,
      async run({ query }) {
        const { limit = 1000, after, since, until, ...rest } = query;
        const filters = definedOnly({
          ...rest,
          since: since === undefined ? undefined : readTime(since, 'since', deps.now()),
          until: until === undefined ? undefined : readTime(until, 'until', deps.now()),
        });
        return { records: await page(deps.auditDir, filters, Math.min(limit, MAX_PAGE), after) };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/audit/verify',
      summary: 'Check the chain of the trail and its checkpoints, and name the first break',
      right: 'audit:read',
      answer: verifyAnswer,
      run: () => verifyAudit(deps.auditDir),
    }),
  ];
}

/** Oldest first: those that follow `after`, or the newest there are. */
export async function page(
  dir: string,
  filters: AuditQuery,
  limit: number,
  after?: number,
): Promise<AuditRecord[]> {
  const query: AuditQuery =
    after === undefined ? { ...filters, limit, order: 'newest' } : { ...filters, limit, after };
  const records: AuditRecord[] = [];
  for await (const record of queryAudit(dir, query)) records.push(record);
  return after === undefined ? records.reverse() : records;
}

/** `2026-01-31T12:00:00Z`, a date alone, or `15m` for that long ago. @throws PosternError `invalid_input` */
export function readTime(text: string, key: string, now: number): number {
  if (/^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/i.test(text)) {
    const at = Date.parse(text);
    if (Number.isFinite(at)) return at;
  }
  if (/^[\dsmhd]+$/.test(text)) return now - parseDuration(text, key);
  throw new PosternError('invalid_input', `${key}: ${safeRef(text)} is no time.`, {
    key,
    remedy: 'Write it in RFC 3339 (2026-01-31T12:00:00Z), or as a duration back from now (15m).',
  });
}

function definedOnly(
  filters: { readonly [name in keyof AuditQuery]: AuditQuery[name] | undefined },
): AuditQuery {
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));
}
