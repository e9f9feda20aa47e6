// Credentials that come back from an upstream in other clothes than the plain one.

import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { FLUSH_PKT, pktLine } from '../../../gitproxy/pkt-line.ts';
import type { IssuedGitSession } from '../../../sessions/guards.ts';
import { startGitGuard, type TestGuard } from '../../support/git-guard.ts';
import { type LenientUpstream, lenientUpstream } from '../../support/lenient-upstream.ts';
import { rawExchange } from '../../support/raw-client.ts';
import { FETCH_TYPE, head, push } from './kit.ts';

/** As long as GitHub's newer tokens, and with characters that encodings change. */
const TOKEN = `ghs_${Array.from({ length: 260 }, (_, i) => ((i * 7919 + 13) % 36).toString(36)).join('')}.+/x~y`;

let upstream: LenientUpstream;
let guard: TestGuard;
let session: IssuedGitSession;

beforeAll(async () => {
  upstream = await lenientUpstream();
  guard = await startGitGuard({ upstreams: [{ url: upstream.origin }], token: TOKEN });
  session = await guard.issue({ permissions: ['contents:write'] });
});
afterAll(async () => {
  await guard.close();
  await upstream.close();
});
beforeEach(() => upstream.clear());

function answerWith(type: string, body: Buffer): void {
  upstream.answer(() =>
    Buffer.concat([
      Buffer.from(
        [
          'HTTP/1.1 200 OK',
          `Content-Type: application/x-git-${type}`,
          `Content-Length: ${body.length}`,
          'Connection: close',
          '',
          '',
        ].join('\r\n'),
      ),
      body,
    ]),
  );
}

/** What git's copy_to_sideband makes of a hook's output: packets of at most 128 bytes. */
function banded(text: string, most = 128): Buffer {
  const out: Buffer[] = [];
  for (let at = 0; at < text.length; at += most)
    out.push(pktLine(Buffer.concat([Buffer.from([2]), Buffer.from(text.slice(at, at + most))])));
  return Buffer.concat(out);
}

/** What git shows of an answer's band 2. */
function shown(answer: string): string {
  let text = '';
  const body = Buffer.from(answer, 'latin1');
  for (let at = 0; at + 4 <= body.length; ) {
    const length = Number.parseInt(body.toString('latin1', at, at + 4), 16);
    if (!(length >= 4)) break;
    if (body[at + 4] === 2) text += body.toString('latin1', at + 5, at + length);
    at += length;
  }
  return text;
}

const dechunk = (text: string): string => text.replace(/(^|\r\n)[0-9a-f]+\r\n/g, '');

test('the credential does not pass in the words of a hook, which git cuts into packets of 128 bytes (push)', async () => {
  answerWith('receive-pack-result', Buffer.concat([banded(`debug: env GIT_TOKEN=${TOKEN}\n`), FLUSH_PKT]));
  const answer = await rawExchange(guard.port, guard.certs.ca, push(guard, session));
  expect(shown(dechunk(answer.body))).not.toContain(TOKEN.slice(0, 64));
});

test('the credential does not pass in the words of upload-pack, split between two packets (fetch)', async () => {
  const text = `warning: ${TOKEN}\n`;
  answerWith('upload-pack-result', Buffer.concat([banded(text, 150), FLUSH_PKT]));
  const answer = await rawExchange(
    guard.port,
    guard.certs.ca,
    `${head(guard, session, 'POST /acme/tool.git/git-upload-pack', FETCH_TYPE, 'Content-Length: 8')}0004done`,
  );
  expect(shown(answer.body)).not.toContain(TOKEN.slice(0, 64));
});

const forms: { readonly [name: string]: string } = {
  plain: TOKEN,
  'percent-encoded': encodeURIComponent(TOKEN),
  'percent-encoded in lower case': encodeURIComponent(TOKEN).replace(/%../g, (x) => x.toLowerCase()),
  'the header that was sent': `Basic ${Buffer.from(`x-access-token:${TOKEN}`).toString('base64')}`,
  'that header in base64url': Buffer.from(`x-access-token:${TOKEN}`).toString('base64url'),
  'base64 of the bare token': Buffer.from(TOKEN).toString('base64'),
  'base64 behind one byte': Buffer.from(`x${TOKEN}`).toString('base64'),
  'base64 behind two bytes': Buffer.from(`xx${TOKEN}`).toString('base64'),
  'JSON with escaped slashes': JSON.stringify(TOKEN).replaceAll('/', '\\/'),
};

test.each(Object.keys(forms))('the credential does not pass as %s', async (name) => {
  const form = forms[name] ?? '';
  answerWith('receive-pack-result', Buffer.concat([pktLine(`\x02${form}\n`), FLUSH_PKT]));
  const answer = await rawExchange(guard.port, guard.certs.ca, push(guard, session));
  expect(answer.body.includes(form.slice(0, 200))).toBe(false);
});

test('an answer in a transfer coding that was not asked for, which nobody can search, does not pass', async () => {
  const packed = gzipSync(Buffer.concat([pktLine(`\x02${TOKEN}\n`), FLUSH_PKT]));
  const chunk = Buffer.concat([
    Buffer.from(`${packed.length.toString(16)}\r\n`),
    packed,
    Buffer.from('\r\n0\r\n\r\n'),
  ]);
  const lines = [
    'HTTP/1.1 200 OK',
    'Content-Type: application/x-git-receive-pack-result',
    'Transfer-Encoding: gzip, chunked',
    'Connection: close',
  ];
  upstream.answer(() => Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), chunk]));
  const answer = await rawExchange(guard.port, guard.certs.ca, push(guard, session));
  expect(Buffer.from(answer.body, 'latin1').includes(packed.subarray(0, 64))).toBe(false);
});
