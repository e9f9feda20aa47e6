// One call, and how it is answered: headers that every answer has, JSON (pretty for curl, as the real server does it),
// gzip above 128 KiB, Statuses, lists written piece by piece so that 50 MB of them are never one string.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createGzip, gzipSync } from 'node:zlib';
import { parse as parseYaml, stringify as toYaml } from 'yaml';
import { encodeCbor } from '../encodings/cbor.ts';
import { decodeProtobuf, encodeProtobuf, isProtobuf } from '../encodings/protobuf.ts';
import type { ResourceType } from '../kinds/resources.ts';
import { ApiError, badRequest, failure, unsupportedMediaType } from '../objects/status.ts';
import { isObject, type Json, type JsonObject } from '../objects/values.ts';
import { CONTENT_TYPE, type Format, negotiate, parseAccept } from './negotiate.ts';
import type { RequestInfo } from './request-info.ts';
import { first, type Target } from './target.ts';
import type { Identity } from './users.ts';

export interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  target: Target;
  info: RequestInfo;
  who: Identity;
  served: readonly Format['media'][];
  maxBodyBytes: number;
  /** Told of the body, once it is read. */
  noteBody(bytes: Buffer): void;
}

const GZIP_FROM = 128 * 1024;
const COLLECT = 64 * 1024;

export function param(call: Call, key: string): string {
  return first(call.target.query, key);
}

/** A text that asks to be told to the person at the client (`Warning: <message>` on kubectl's stderr). */
export function warn(call: Call, message: string): void {
  call.response.appendHeader('Warning', `299 - ${JSON.stringify(message)}`);
}

function wantsGzip(call: Call): boolean {
  const accepts = String(call.request.headers['accept-encoding'] ?? '');
  return call.request.method === 'GET' && /(^|[\s,])gzip($|[\s,;])/.test(accepts);
}

function wantsPretty(call: Call): boolean {
  const asked = call.target.query.get('pretty')?.[0];
  if (asked !== undefined) return asked !== 'false' && asked !== '0';
  return /^(curl|Wget|Mozilla)/.test(String(call.request.headers['user-agent'] ?? ''));
}

export function formatOf(call: Call): Format {
  return negotiate(call.request.headers.accept, call.served);
}

function encode(call: Call, body: Json, media: Format['media'], type: ResourceType | undefined): Buffer {
  if (media === 'cbor') return encodeCbor(body);
  if (media === 'protobuf') return (isObject(body) && encodeProtobuf(body, type)) || Buffer.alloc(0);
  if (media === 'yaml') return Buffer.from(toYaml(body));
  return Buffer.from(wantsPretty(call) ? JSON.stringify(body, undefined, 2) : `${JSON.stringify(body)}\n`);
}

/** `type` is what protobuf needs to know of an object or a list. */
export function send(
  call: Call,
  code: number,
  body: Json,
  media: Format['media'] = 'json',
  type?: ResourceType,
): void {
  sendBytes(call, code, encode(call, body, media, type), CONTENT_TYPE[media]);
}

export function sendBytes(call: Call, code: number, bytes: Buffer, type: string): void {
  const { response } = call;
  if (response.headersSent || response.destroyed) return;
  response.statusCode = code;
  response.setHeader('Content-Type', type);
  let body = bytes;
  if (bytes.length > GZIP_FROM && wantsGzip(call)) {
    response.setHeader('Content-Encoding', 'gzip');
    response.setHeader('Vary', 'Accept-Encoding');
    body = gzipSync(bytes, { level: 1 });
  }
  response.setHeader('Content-Length', body.length);
  response.end(call.request.method === 'HEAD' ? undefined : body);
}

/** A Status for what went wrong; after the head went out, all that is left is to cut. */
export function sendError(call: Pick<Call, 'request' | 'response'>, error: unknown): void {
  const { response } = call;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const known =
    error instanceof ApiError
      ? error
      : failure(
          500,
          'InternalError',
          `Internal error occurred: ${error instanceof Error ? error.stack : error}`,
        );
  for (const [name, value] of Object.entries(known.headers)) response.setHeader(name, value);
  if (known.code === 403) response.setHeader('X-Content-Type-Options', 'nosniff');
  const prefersProtobuf = parseAccept(call.request.headers.accept ?? '')[0]?.type === CONTENT_TYPE.protobuf;
  const bytes =
    (prefersProtobuf && encodeProtobuf(known.status)) || Buffer.from(`${JSON.stringify(known.status)}\n`);
  response.statusCode = known.code;
  response.setHeader('Content-Type', prefersProtobuf ? CONTENT_TYPE.protobuf : 'application/json');
  response.setHeader('Content-Length', bytes.length);
  response.end(call.request.method === 'HEAD' ? undefined : bytes);
}

/** `{…head, "items": [ … ]}` with the items taken one at a time; backpressure holds. */
export async function sendList(call: Call, head: JsonObject, items: Iterable<Json>): Promise<void> {
  if (wantsPretty(call)) return send(call, 200, { ...head, items: [...items] });
  const { response } = call;
  const gzip = wantsGzip(call);
  let pending = `${JSON.stringify(head).slice(0, -1)},"items":[`;
  let out: NodeJS.WritableStream | undefined;
  let separator = '';
  for (const item of items) {
    pending += separator + JSON.stringify(item);
    separator = ',';
    if (out ? pending.length < COLLECT : pending.length <= GZIP_FROM) continue;
    if (!out) {
      response.statusCode = 200;
      response.setHeader('Content-Type', 'application/json');
      if (gzip) {
        response.setHeader('Content-Encoding', 'gzip');
        response.setHeader('Vary', 'Accept-Encoding');
        const packer = createGzip({ level: 1 });
        packer.pipe(response);
        out = packer;
      } else out = response;
    }
    if (!out.write(pending)) await drained(out, response);
    if (response.destroyed) return;
    pending = '';
  }
  pending += ']}\n';
  if (out) out.end(pending);
  else sendBytes(call, 200, Buffer.from(pending), 'application/json');
}

/** Room again, or nobody left to make it for. */
function drained(out: NodeJS.WritableStream, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      out.off('drain', go);
      response.off('close', go);
      resolve();
    };
    out.once('drain', go);
    response.once('close', go);
  });
}

/** @throws ApiError 413 */
export async function readBody(call: Call): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of call.request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > call.maxBodyBytes)
      throw failure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${call.maxBodyBytes}`);
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  call.noteBody(body);
  return body;
}

export function mediaType(call: Call): string {
  const [type = ''] = String(call.request.headers['content-type'] ?? '').split(';');
  return type.trim().toLowerCase();
}

/** An object in JSON, YAML or protobuf; the empty body is the empty object. @throws ApiError 400, 415 */
export function parseBody(call: Call, bytes: Buffer): JsonObject {
  const type = mediaType(call);
  if (bytes.length === 0) return {};
  if (isProtobuf(type)) return decodeProtobuf(bytes) ?? refuseProtobuf();
  if (type !== '' && type !== 'application/json' && type !== 'application/yaml')
    throw unsupportedMediaType([
      'application/json',
      'application/yaml',
      'application/vnd.kubernetes.protobuf',
    ]);
  return parseObject(bytes, type === 'application/yaml');
}

export function parseJson(bytes: Buffer, yaml = false): Json {
  try {
    return (yaml ? parseYaml(bytes.toString()) : JSON.parse(bytes.toString())) as Json;
  } catch (error) {
    throw badRequest(`error decoding the body: ${error instanceof Error ? error.message : error}`);
  }
}

export function parseObject(bytes: Buffer, yaml = false): JsonObject {
  const value = parseJson(bytes, yaml);
  if (!isObject(value)) throw badRequest('the body is not an object');
  return value;
}

function refuseProtobuf(): never {
  throw badRequest('the body is not the protobuf of an object that this server knows');
}
