// The recorded answers of the real server, read from the fixtures.

import { readFileSync } from 'node:fs';
import type { JsonObject } from './objects/values.ts';
import type { RequestInfo } from './request/request-info.ts';

const folder = new URL('../fixtures/kube/', import.meta.url);

export interface Recording {
  status: number;
  headers: ReadonlyMap<string, string>;
  body: Buffer;
  json: JsonObject;
}

export function recording(name: string): Recording {
  const raw = readFileSync(new URL(`recordings/${name}.http`, folder));
  const end = raw.indexOf('\r\n\r\n');
  const [first = '', ...lines] = raw.toString('latin1', 0, end).split('\r\n');
  const body = raw.subarray(end + 4);
  const text = body.toString();
  return {
    status: Number(first.split(' ')[1]),
    headers: new Map(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    ),
    body,
    json: text.startsWith('{') && !text.includes('\n{"type"') ? (JSON.parse(text) as JsonObject) : {},
  };
}

export interface RecordedRequest {
  method: string;
  target: string;
  status: number;
  read: Omit<RequestInfo, 'path'> | null;
}

/** What was sent raw to the real server, and how it read each. */
export function recordedRequests(): RecordedRequest[] {
  const lines = readFileSync(new URL('requestinfo.jsonl', folder), 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as RecordedRequest);
}
