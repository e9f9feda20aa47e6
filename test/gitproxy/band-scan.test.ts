import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createBandScan, DetourError } from '../../gitproxy/band-scan.ts';
import { createPktReader, FLUSH_PKT, pktLine } from '../../gitproxy/pkt-line.ts';
import { formsOf, needlesOf } from '../../relay/echo.ts';

const token = `ghs_${randomBytes(380).toString('base64url')}/+`;
const needles = needlesOf(formsOf(token));

/** What left, and whether it was found. */
function run(chunks: readonly Buffer[]): { out: Buffer; found: boolean } {
  const scan = createBandScan(needles);
  const out: Buffer[] = [];
  for (const chunk of chunks) {
    const passed = scan.push(chunk);
    if (!passed) return { out: Buffer.concat(out), found: true };
    out.push(passed);
  }
  out.push(scan.end());
  return { out: Buffer.concat(out), found: false };
}

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

/** What git makes of it: the lines outside of bands, and the text of each band. */
function read(bytes: Buffer): { lines: string[]; bands: string[] } {
  const lines: string[] = [];
  const bands = ['', '', '', ''];
  createPktReader().push(bytes, (pkt) => {
    const first = pkt.kind === 'line' ? (pkt.payload[0] ?? 0) : 0;
    if (pkt.kind !== 'line') lines.push(pkt.kind);
    else if (first >= 1 && first <= 3) bands[first] += pkt.payload.toString('latin1', 1);
    else lines.push(pkt.payload.toString('latin1'));
  });
  return { lines, bands };
}

const banded = (band: number, text: string, most = 128): Buffer => {
  const out: Buffer[] = [];
  for (let at = 0; at < text.length; at += most)
    out.push(pktLine(String.fromCharCode(band) + text.slice(at, at + most)));
  return Buffer.concat(out);
};
const cuts = fc.array(fc.nat(), { maxLength: 12 });
const latin1 = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString('latin1'));
const line = latin1.filter((text) => text === '' || text.charCodeAt(0) > 3);
const packet = fc.oneof(
  line.map((text) => pktLine(text)),
  fc
    .tuple(fc.integer({ min: 1, max: 3 }), latin1)
    .map(([band, text]) => pktLine(String.fromCharCode(band) + text)),
  fc.integer({ min: 1, max: 300 }).map((length) => pktLine(`\x02${token.slice(0, length)}`)),
  fc.integer({ min: 1, max: 300 }).map((length) => pktLine(token.slice(0, length))),
  fc.constantFrom(
    FLUSH_PKT,
    Buffer.from('0001'),
    Buffer.from('0002'),
    Buffer.from('0004'),
    Buffer.from('0005\x01'),
  ),
);

describe('an answer without the credential', () => {
  test('says the same to git, however it is framed and cut', () => {
    fc.assert(
      fc.property(fc.array(packet, { maxLength: 8 }), cuts, (packets, at) => {
        const bytes = Buffer.concat(packets);
        fc.pre(!bytes.toString('latin1').includes(token));
        const { out, found } = run(split(bytes, at));
        expect(found).toBe(false);
        expect(read(out)).toEqual(read(bytes));
      }),
      { numRuns: 1_000 },
    );
  });

  test('that is no framing, or none from some point on, passes byte for byte', () => {
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 3 }),
        fc.uint8Array({ maxLength: 400 }),
        cuts,
        (lines, rest, at) => {
          const bytes = Buffer.concat([...lines.map((text) => pktLine(text)), Buffer.from('PACK'), rest]);
          expect(run(split(bytes, at))).toEqual({ out: bytes, found: false });
        },
      ),
    );
  });

  test('is not delayed: a part of a packet passes as one, and what keeps a connection alive too', () => {
    const scan = createBandScan(needles);
    expect(scan.push(Buffer.from('0010\x02half'))?.toString()).toBe('0009\x02half');
    expect(scan.push(Buffer.from('time...'))?.toString()).toBe('000c\x02time...');
    expect(scan.push(Buffer.from('0005\x01'))?.toString()).toBe('0005\x01');
  });

  test('keeps packets as small as a client of the old side-band takes them', () => {
    const begins = token.slice(0, 300);
    const { out } = run([banded(2, begins + 'x'.repeat(600), 995), banded(2, `${begins}y`, 995)]);
    createPktReader().push(out, (pkt) => expect(pkt.kind === 'line' && pkt.payload.length <= 996).toBe(true));
  });
});

describe('the credential in an answer is found', () => {
  test.each(formsOf(token).map((form) => [form.slice(0, 12), form]))(
    'in band 2, cut into small packets: %s…',
    (_, form) => {
      fc.assert(
        fc.property(fc.integer({ min: 5, max: 200 }), latin1, cuts, (most, before, at) => {
          const noise = pktLine('\x01pack');
          const half = form.length >> 1;
          const bytes = Buffer.concat([
            pktLine('NAK\n'),
            banded(2, before + form.slice(0, half), most),
            noise,
            banded(2, form.slice(half), most),
            FLUSH_PKT,
          ]);
          const { out, found } = run(split(bytes, at));
          expect(found).toBe(true);
          expect(read(out).bands[2]).not.toContain(form.slice(0, 8));
        }),
        { numRuns: 30 },
      );
    },
  );

  test.each([
    ['band 3', banded(3, `fatal: ${token}`, 70)],
    ['a report in band 1', banded(1, pktLine(`ng refs/heads/x ${token}`).toString('latin1'), 100)],
    ['a line of no band', pktLine(`ng refs/heads/x ${token}\n`)],
    ['a bare pack', Buffer.from(`0008NAK\nPACK${token}`)],
    ['something that is no framing at all', Buffer.from(`<html>${token}`)],
  ])('in %s', (_where, bytes) => {
    for (let cut = 0; cut <= bytes.length; cut++)
      expect(run([bytes.subarray(0, cut), bytes.subarray(cut)]).found).toBe(true);
  });
});

describe('what would lead to another host', () => {
  test.each([
    ['packfile-uris', Buffer.concat([pktLine('packfile-uris\n'), pktLine('abc https://cdn.example/x\n')])],
    [
      'packfile-uris behind another section',
      Buffer.concat([pktLine('shallow-info\n'), Buffer.from('0001'), pktLine('packfile-uris')]),
    ],
    ['packfile-uris within a band', pktLine('\x01packfile-uris\n')],
    ['bundle-uri', Buffer.concat([pktLine('bundle.version=1\n'), FLUSH_PKT])],
  ])('is stopped: %s', (_what, bytes) => {
    for (let cut = 0; cut <= bytes.length; cut++)
      expect(() => run([bytes.subarray(0, cut), bytes.subarray(cut)])).toThrow(DetourError);
  });

  test.each([
    ['a ref of that name', pktLine(`${'b'.repeat(40)} refs/heads/packfile-uris bundle.`)],
    ['words of the upstream about it', banded(2, 'packfile-uris\nbundle.version')],
    ['a pack that holds the word', banded(1, 'bundle.version')],
    ['the section of the pack', pktLine('packfile\n')],
  ])('is not %s', (_what, bytes) => {
    expect(run([bytes]).out).toEqual(bytes);
  });
});
