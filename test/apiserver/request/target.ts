// A request target as Go's net/http and net/url read it: the API server judges and routes on the decoded path, so
// `%2F` is a slash to it; a query pair that doesn't decode, or that holds `;`, is dropped without a word.

export interface Target {
  /** The decoded path; RequestInfo and the routes both read this one. */
  path: string;
  query: Query;
}

/** The values of each key, in the order in which they came. */
export type Query = ReadonlyMap<string, readonly string[]>;

/** @returns undefined where Go answers 400 before any handler runs */
export function readTarget(raw: string): Target | undefined {
  const mark = raw.indexOf('?');
  let path = mark < 0 ? raw : raw.slice(0, mark);
  const absolute = /^https?:\/\/[^/?]*/i.exec(path);
  if (absolute) path = path.slice(absolute[0].length) || '/';
  if (!path.startsWith('/') && path !== '*') return undefined;
  const decoded = percentDecode(path, false);
  if (decoded === undefined) return undefined;
  return { path: decoded, query: readQuery(mark < 0 ? '' : raw.slice(mark + 1)) };
}

export function readQuery(raw: string): Query {
  const query = new Map<string, string[]>();
  for (const pair of raw.split('&')) {
    if (pair === '' || pair.includes(';')) continue;
    const mark = pair.indexOf('=');
    const key = percentDecode(mark < 0 ? pair : pair.slice(0, mark), true);
    const value = percentDecode(mark < 0 ? '' : pair.slice(mark + 1), true);
    if (key === undefined || value === undefined) continue;
    const values = query.get(key);
    if (values) values.push(value);
    else query.set(key, [value]);
  }
  return query;
}

/** The first value of a key; '' when it is absent. */
export function first(query: Query, key: string): string {
  return query.get(key)?.[0] ?? '';
}

/** apimachinery's conversion of a query value to a bool: everything is true but absence, `0` and any-case `false`. */
export function flag(query: Query, key: string): boolean {
  const value = query.get(key)?.[0];
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false';
}

function percentDecode(raw: string, plusIsSpace: boolean): string | undefined {
  if (/%(?![0-9a-fA-F]{2})/.test(raw)) return undefined;
  const spaced = plusIsSpace ? raw.replaceAll('+', ' ') : raw;
  if (!spaced.includes('%')) return spaced;
  const bytes = Buffer.from(spaced, 'latin1');
  const out = Buffer.alloc(bytes.length);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    if (byte === 0x25) {
      out[length++] = Number.parseInt(spaced.slice(i + 1, i + 3), 16);
      i += 2;
    } else out[length++] = byte;
  }
  return out.toString('utf8', 0, length);
}
