// The account of what could not be recorded. Events enter it when their batch fails, is given up or is never sent; they
// leave it with an `audit.gap` record that tells of them. Pure bookkeeping; times are RFC 3339.

import type { Gap } from './writer-protocol.ts';

export interface Ledger {
  dropped(count: number, first: string, last: string, why: string): void;
  /** Counted as dropped, and written after all. */
  recovered(count: number): void;
  /** Written, but their callers had been told otherwise. */
  late(count: number, first: string, last: string): void;
  /** Takes what is to be told; `giveBack` it where that could not be written. */
  take(): Gap[];
  giveBack(gaps: readonly Gap[]): void;
  readonly isEmpty: boolean;
}

/** @param refuse whether the callers of lost events were refused */
export function createLedger(refuse: boolean): Ledger {
  let lost: Gap | undefined;
  let late: Gap | undefined;
  let cause = '';

  return {
    get isEmpty() {
      return !lost && !late;
    },
    dropped(count, first, last, why) {
      cause = why;
      lost = wider(lost, { cause: 'dropped', count, first, last, why });
    },
    recovered(count) {
      if (!lost) return;
      const left = (lost.count ?? 0) - count;
      lost = left > 0 ? { ...lost, count: left } : undefined;
    },
    late(count, first, last) {
      late = wider(late, { cause: 'late', count, first, last, why: '' });
    },
    take() {
      const gaps: Gap[] = [];
      if (lost) gaps.push({ ...lost, why: lostText(lost, refuse, cause) });
      if (late) gaps.push({ ...late, why: lateText(late) });
      lost = undefined;
      late = undefined;
      return gaps;
    },
    giveBack(gaps) {
      for (const gap of gaps) {
        if (gap.cause === 'late') late = wider(late, gap);
        else lost = wider(lost, gap);
      }
    },
  };
}

function wider(gap: Gap | undefined, more: Gap): Gap {
  if (!gap) return more;
  const [first, last] = [earlier(gap.first, more.first), latest(gap.last, more.last)];
  const count = (gap.count ?? 0) + (more.count ?? 0);
  return { ...gap, count, ...(first && { first }), ...(last && { last }) };
}

function lostText({ count, first, last }: Gap, refuse: boolean, why: string): string {
  const fate = refuse
    ? 'what they would have recorded was refused'
    : 'what they would have recorded was done';
  return `${count} events from ${first} to ${last} could not be recorded, and ${fate}; the cause: ${why}`;
}

function lateText({ count, first, last }: Gap): string {
  return `${count} records from ${first} to ${last} were confirmed too late; what they allow was refused`;
}

function earlier(one: string | undefined, other: string | undefined): string | undefined {
  return one !== undefined && other !== undefined && other < one ? other : (one ?? other);
}

function latest(one: string | undefined, other: string | undefined): string | undefined {
  return one !== undefined && other !== undefined && other > one ? other : (one ?? other);
}
