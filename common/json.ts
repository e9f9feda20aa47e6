export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * Canonical JSON: keys sorted by code unit, no white space, absent values left out; strings and numbers as
 * `JSON.stringify` writes them (RFC 8785 for what we put in). `jq -cS` differs: it escapes DEL, writes some fractions
 * otherwise and sorts by code point.
 */
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
