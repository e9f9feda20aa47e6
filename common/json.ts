export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Canonical JSON: keys sorted by code unit, no white space, absent values left out. `jq -cS` prints the same. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const object = value as Record<string, unknown>;
    const parts: string[] = [];
    for (const key of Object.keys(object).sort()) {
      if (object[key] !== undefined) parts.push(`${JSON.stringify(key)}:${canonicalJson(object[key])}`);
    }
    return `{${parts.join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}
