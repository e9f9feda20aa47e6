// The broom: closes sessions whose time is over (their custody goes with them), keeps the count of open ones true, and
// deletes what nobody asks for any more. Ended sessions are kept for a day past their hard end, so that `show` can say
// what they were and a token past its time is told so.

import type { Row, Store } from '../store/store.ts';
import { type Core, noteRead, tryRead } from './core.ts';
import { COUNTER_SET } from './counters.ts';
import { closeExpired, settleMarks } from './ending.ts';
import { SESSION_INDEX, SESSION_SET, type SessionState } from './record.ts';

/** After a session's hard end (and after its end, if that is later by a clock that was wrong). */
export const RETENTION_MS = 24 * 3_600_000;
export const SWEEP_MS = 15_000;
const PAGE = 200;

export async function sweep(core: Core): Promise<void> {
  await settleMarks(core);
  await noteOpen(core);
  const now = core.clock.now();
  for (const [id, { expiresAt }] of core.open) if (now >= expiresAt) await closeExpired(core, id);
  await forgetOld(core);
}

/** Reads which sessions are open, also those that other processes issued. */
export async function noteOpen(core: Core): Promise<void> {
  const seen = new Set<string>();
  const before = [...core.open.keys()];
  for await (const rows of pages(core.store, 'open')) {
    for (const row of rows) {
      const record = tryRead(row, core.log);
      if (!record) continue;
      noteRead(core, row.id, record);
      seen.add(row.id);
    }
  }
  for (const id of before) if (!seen.has(id)) core.open.delete(id);
}

async function forgetOld({ store, clock, log }: Core): Promise<void> {
  const now = clock.now();
  for await (const rows of pages(store, 'ended')) {
    const old = rows.filter((row) => {
      const record = tryRead(row, log);
      if (!record) return false;
      const { hardExpiresAt, revokedAt = 0 } = record.session;
      return now >= Math.max(hardExpiresAt, revokedAt, record.closedAt ?? 0) + RETENTION_MS;
    });
    for (const { id, rev } of old)
      await store.commit([
        { op: 'delete', set: SESSION_SET, id, expect: rev },
        { op: 'delete', set: COUNTER_SET, id },
      ]);
    if (old.length === 0) return; // ids sort by age: the rest is younger
  }
}

async function* pages(store: Store, state: SessionState): AsyncGenerator<Row[]> {
  const where = { index: SESSION_INDEX.state, value: state };
  let after = '';
  for (;;) {
    const rows = await store.list(SESSION_SET, { where, limit: PAGE, ...(after === '' ? {} : { after }) });
    yield rows;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    after = last.id;
  }
}
