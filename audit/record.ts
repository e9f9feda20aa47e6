// From an event to the text of its record, on the calling thread: redact, bound, and print as canonical JSON with
// holes for the three members that only the writer knows (prev, seq, time). The members come in sorted order from one
// table, so the text is canonical without sorting; what the writer adds is in seal.ts.
//
// Every string that is not from a closed list is redacted and bounded. Of the usual, clean event the strings are only
// looked at.
//
// The text is kept to what every JSON printer prints alike: whole numbers, well-formed UTF-16, no DEL (jq escapes it,
// JSON.stringify does not), so that `jq -cS 'del(.hash)'` reproduces the hashed bytes.

import type { Redactor } from '../common/redact.ts';
import type { AuditEvent, RefRecord } from './event.ts';

export const LIMITS = {
  userAgent: 256,
  reason: 1024,
  constraints: 2048,
  command: 4096,
  ref: 1024,
  text: 256,
  /** The most that `git.push.maxRefs` can be: of a push that is admitted none is left out. */
  refs: 1000,
  /** Of their text, so that no line reaches 1 MiB, which is as far back as readers look for the last one. */
  refBytes: 900 * 1024,
} as const;

/** Stands between the five parts of an encoded event: time, and the text around the holes. */
export const PART = '\0';

type Key = keyof AuditEvent;
type Kind = 'text' | 'closed' | 'number' | 'refs' | 'command' | 'data';

/** In the order of canonical JSON; `|` marks where the writer puts prev, seq and time. */
const ORDER = `action:closed actor anchor:data apiGroup bytesDown:number bytesUp:number code:closed command:command
  constraints decision:closed durationMs:number exchangeId executorId expiresAt gap:data grantId guard:closed host kind
  leaseId method name namespace port:number | projectId pushOptions:command reason refs:refs refsOmitted:number repo requestId resource runId
  secretId secretName | service sessionId sourceIp status:number subject subresource taskId | userAgent verb`;

const GROUPS: readonly (readonly { key: Key; kind: Kind; limit: number }[])[] = ORDER.split('|').map(
  (group) =>
    group
      .trim()
      .split(/\s+/)
      .map((item) => {
        const [key = '', kind = 'text'] = item.split(':');
        const limit = (LIMITS as { [key: string]: number })[key] ?? LIMITS.text;
        return { key: key as Key, kind: kind as Kind, limit };
      }),
);

/** Every member of a record, sorted; the reference page is compared with it. */
export const RECORD_FIELDS: readonly string[] = [
  ...GROUPS.flat().map(({ key }) => key as string),
  'hash',
  'prev',
  'seq',
  'time',
  'v',
].sort();

type Clean = (text: string, limit: number) => string;

const asIs: Clean = (text) => text;

/** @param time RFC 3339 UTC with milliseconds */
export function encodeEvent(event: AuditEvent, time: string, redactor: Redactor | undefined): string {
  const clean = redactor === undefined || isClean(event, redactor) ? asIs : cleaner(redactor);
  let out = time;
  for (let group = 0; group < GROUPS.length; group++) out += PART + members(event, group, clean, redactor);
  return out;
}

function members(event: AuditEvent, group: number, clean: Clean, redactor: Redactor | undefined): string {
  let out = '';
  let left: number | undefined; // refs that the record's own limits leave out
  for (const { key, kind, limit } of GROUPS[group] ?? []) {
    // `v` sorts between userAgent and verb.
    if (key === 'verb') out += '"v":1,';
    const value = key === 'refsOmitted' ? (event.refsOmitted ?? left) : event[key];
    if (value === undefined) continue;
    if (kind === 'refs') {
      const refs = refsText(event.refs ?? [], clean);
      left = refs.left > 0 ? refs.left : undefined;
      out += `"${key}":${refs.text},`;
      continue;
    }
    const text = printed(value, kind, limit, clean, redactor);
    if (text !== undefined) out += `"${key}":${text},`;
  }
  return group === 0 ? `{${out}` : out;
}

function refsText(refs: readonly RefRecord[], clean: Clean): { text: string; left: number } {
  const texts: string[] = [];
  let bytes = 0;
  for (const ref of refs.slice(0, LIMITS.refs)) {
    const text = refText(ref, clean);
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > LIMITS.refBytes) break;
    texts.push(text);
  }
  return { text: `[${texts.join(',')}]`, left: refs.length - texts.length };
}

function printed(
  value: unknown,
  kind: Kind,
  limit: number,
  clean: Clean,
  redactor: Redactor | undefined,
): string | undefined {
  switch (kind) {
    case 'number':
      return whole(value);
    case 'command':
      return JSON.stringify(bounded(redactor ? redactor.value(value) : value));
    case 'data':
      return sorted(value as object);
    default:
      return JSON.stringify(clean(String(value), limit));
  }
}

function whole(value: unknown): string | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value)) return undefined;
  const bound = Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Math.round(value)));
  return String(bound === 0 ? 0 : bound);
}

function refText(ref: RefRecord, clean: Clean): string {
  const text = (value: string, limit: number): string => JSON.stringify(clean(value, limit));
  let out = `{"new":${text(ref.new, 64)},"old":${text(ref.old, 64)},"op":${text(ref.op, 16)}`;
  if (ref.reason !== undefined) out += `,"reason":${text(ref.reason, LIMITS.text)}`;
  out += `,"ref":${text(ref.ref, LIMITS.ref)}`;
  return `${ref.result === undefined ? out : `${out},"result":${text(ref.result, 16)}`}}`;
}

/** Flat metadata that the log itself made. */
function sorted(value: object): string {
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return JSON.stringify(Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The arguments of a command up to a total length; a marker says how many are left out. */
function bounded(redacted: unknown): string[] {
  const args = Array.isArray(redacted) ? redacted.map(String) : [];
  const out: string[] = [];
  let left: number = LIMITS.command;
  for (const arg of args) {
    if (left <= 0) return [...out, `…[+${args.length - out.length} arguments]`];
    out.push(portable(cut(arg, left)));
    left -= arg.length + 1;
  }
  return out;
}

/** What common/ids.ts makes. */
const OWN_ID = /^req_[0-9a-hjkmnp-tv-z]{26}$/;

/** Whether every string can go into the record as it is: the usual case. */
function isClean(event: AuditEvent, redactor: Redactor): boolean {
  if (event.command !== undefined) return false;
  const good = (text: string, limit: number): boolean => text.length <= limit && redactor.text(text) === text;
  let all = '';
  for (const group of GROUPS) {
    for (const { key, kind, limit } of group) {
      if (kind !== 'text') continue;
      const value = event[key] as string | undefined;
      if (value === undefined) continue;
      // New with every exchange, so searching it for credentials finds nothing and is never saved by having been done.
      if (key === 'exchangeId' && OWN_ID.test(value)) continue;
      if (!good(value, limit)) return false;
      all += `${value}\n`;
    }
  }
  for (const { ref, old, new: next, reason = '' } of event.refs ?? []) {
    if (!good(ref, LIMITS.ref) || !good(reason, LIMITS.text) || !good(old, 64) || !good(next, 64))
      return false;
    all += `${ref}\n${reason}\n${old}\n${next}\n`;
  }
  return portable(all) === all;
}

function cleaner(redactor: Redactor): Clean {
  // What lies far beyond the limit is not even looked at; a credential that the first cut splits is found by its piece.
  return (text, limit) =>
    portable(cut(redactor.text(text.slice(0, 2 * limit + 4096)), limit, text.length - limit));
}

function cut(text: string, limit: number, more = text.length - limit): string {
  return text.length <= limit ? text : `${text.slice(0, limit)}…[+${more}]`;
}

function portable(text: string): string {
  if (text.isWellFormed() && !text.includes('\x7f')) return text;
  return text.toWellFormed().replaceAll('\x7f', '\ufffd');
}
