import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAdvertisementFilter } from '../../gitproxy/advertisement.ts';
import { FLUSH_PKT, PktError, pktLine } from '../../gitproxy/pkt-line.ts';
import type { Service } from '../../gitproxy/route.ts';

const body = (...parts: (string | Buffer)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? pktLine(part) : part)));

function filter(service: Service, chunks: readonly Buffer[]): Buffer {
  const transform = createAdvertisementFilter(service);
  const out = chunks.map((chunk) => transform.push(chunk));
  return Buffer.concat([...out, transform.end()]);
}

const upload = (bytes: Buffer): string => filter('git-upload-pack', [bytes]).toString('latin1');
const receive = (bytes: Buffer): string => filter('git-receive-pack', [bytes]).toString('latin1');
const oid = 'a'.repeat(40);

const v2 = body(
  'version 2\n',
  'agent=git/2.50\n',
  'ls-refs=unborn\n',
  'fetch=shallow wait-for-done sideband-all filter packfile-uris\n',
  'bundle-uri\n',
  'bundle-uri=x\n',
  'server-option\n',
  'object-format=sha1\n',
  FLUSH_PKT,
);
const v2Cleaned = body(
  'version 2\n',
  'agent=git/2.50\n',
  'ls-refs=unborn\n',
  'fetch=shallow wait-for-done filter\n',
  'server-option\n',
  'object-format=sha1\n',
  FLUSH_PKT,
).toString();

describe('the advertisement', () => {
  test('of v2 loses what leads to other hosts, and nothing else', () => {
    // Nothing but `sideband-all`, with which a packet is a line: bands are framed anew.
    expect(upload(v2)).toBe(v2Cleaned);
  });

  test('of v2 behind a service line, as some forges write it', () => {
    const service = body('# service=git-upload-pack\n', FLUSH_PKT);
    expect(upload(Buffer.concat([service, v2]))).toBe(service.toString() + v2Cleaned);
  });

  test('of v2 with nothing but packfile-uris', () => {
    expect(upload(body('version 2\n', 'fetch=packfile-uris\n', 'fetch\n', FLUSH_PKT))).toBe(
      body('version 2\n', 'fetch\n', 'fetch\n', FLUSH_PKT).toString(),
    );
  });

  test.each(['', 'version 1\n'])('of v0 and v1 passes as it is (%j)', (version) => {
    const lines = [
      version,
      `${oid} HEAD\0multi_ack symref=HEAD:refs/heads/main\n`,
      `${oid} refs/heads/main\n`,
    ];
    const bytes = body('# service=git-upload-pack\n', FLUSH_PKT, ...lines.filter(Boolean), FLUSH_PKT);
    expect(upload(bytes)).toBe(bytes.toString());
  });

  test('with thousands of refs is not looked through', () => {
    const refs = Array.from({ length: 5_000 }, (_, i) => pktLine(`${oid} refs/heads/b${i}\n`));
    const bytes = body(
      '# service=git-upload-pack\n',
      FLUSH_PKT,
      `${oid} refs/heads/a\0 x\n`,
      ...refs,
      FLUSH_PKT,
    );
    expect(upload(bytes)).toBe(bytes.toString());
  });

  test.each([
    [' report-status push-cert=1234-abc atomic\n', ' report-status atomic\n'],
    [' report-status push-cert=1234-abc\n', ' report-status\n'],
    ['push-cert=1 push-options', 'push-options'],
    [' report-status push-certificate\n', ' report-status push-certificate\n'],
  ])('of a push offers no signing: %j', (given, left) => {
    const of = (list: string) =>
      body('# service=git-receive-pack\n', FLUSH_PKT, `${oid} refs/heads/a\0${list}`, FLUSH_PKT);
    expect(receive(of(given))).toBe(of(left).toString());
  });

  test('of an empty repository', () => {
    const bytes = body('# service=git-receive-pack\n', FLUSH_PKT, FLUSH_PKT);
    expect(receive(bytes)).toBe(bytes.toString());
  });

  test('with an error for the person passes', () => {
    const bytes = body('# service=git-upload-pack\n', FLUSH_PKT, 'ERR the forge is being moved\n');
    expect(upload(bytes)).toBe(bytes.toString());
  });

  test('is the same however it is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 12 }), (cuts) => {
        const at = [0, ...cuts.map((cut) => cut % v2.length).sort((a, b) => a - b), v2.length];
        const chunks = at.slice(1).map((end, i) => v2.subarray(at[i], end));
        expect(filter('git-upload-pack', chunks).toString()).toBe(v2Cleaned);
      }),
    );
  });

  test.each([
    ['HTML', Buffer.from('<html>')],
    ['a delimiter', body('version 2\n', Buffer.from('0001'))],
    ['nothing', Buffer.alloc(0)],
    ['a broken-off list', body('version 2\n', 'agent=x\n')],
    ['a broken-off line', body('version 2\n').subarray(0, 8)],
  ])('that is none is not passed on as one: %s', (_what, bytes) => {
    expect(() => upload(bytes)).toThrow(PktError);
  });
});
