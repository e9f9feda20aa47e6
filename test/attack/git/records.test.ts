// A ref that moves is on record, however many others stand before it.

import { expect, test } from 'vitest';
import type { AuditEvent } from '../../../audit/event.ts';
import { encodeEvent } from '../../../audit/record.ts';
import { configSchema } from '../../../cli/config-schema.ts';

test('no push that the configuration allows has refs that its record leaves out', () => {
  const most = 10_000;
  const parsed = configSchema.safeParse({ git: { push: { maxRefs: most } } });
  if (!parsed.success) return; // refused by the schema: as good
  const refs = Array.from({ length: 150 }, (_, i) => ({
    ref: `refs/heads/agent/${i}`,
    op: 'create' as const,
    old: '0'.repeat(40),
    new: '1'.repeat(40),
  }));
  const event: AuditEvent = { action: 'git.push_allowed', decision: 'allow', guard: 'git', refs };
  expect(encodeEvent(event, '2026-01-01T00:00:00.000Z', undefined)).toContain('refs/heads/agent/149');
});
