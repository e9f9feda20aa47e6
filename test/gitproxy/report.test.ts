import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPktReader, FLUSH_PKT, pktLine } from '../../gitproxy/pkt-line.ts';
import type { PushCapabilities } from '../../gitproxy/receive-pack.ts';
import { createReportReader, refusedReport } from '../../gitproxy/report.ts';

const banded: PushCapabilities = { report: true, band: 65_515 };
const plain: PushCapabilities = { report: true, band: 0 };

function lines(bytes: Buffer): string[] {
  const found: string[] = [];
  createPktReader().push(
    bytes,
    (pkt) => void found.push(pkt.kind === 'line' ? pkt.payload.toString('latin1') : pkt.kind),
  );
  return found;
}

describe('the report of a refused push', () => {
  const refs = [
    ['refs/heads/a', 'ref_not_allowed: no'],
    ['refs/heads/\xc3\xbc', 'refused as a whole'],
  ] as const;

  test('says the words in band 2 and the report in band 1', () => {
    const [words = '', report = '', end] = lines(
      refusedReport(banded, refs, ['one', 'two']) ?? Buffer.alloc(0),
    );
    expect([words, end]).toEqual(['\x02one\ntwo\n', 'flush']);
    expect(report[0]).toBe('\x01');
    expect(lines(Buffer.from(report.slice(1), 'latin1'))).toEqual([
      'unpack ok\n',
      'ng refs/heads/a ref_not_allowed: no\n',
      'ng refs/heads/\xc3\xbc refused as a whole\n',
      'flush',
    ]);
  });

  test('is plain where no bands were asked for', () => {
    expect(lines(refusedReport(plain, refs, ['words']) ?? Buffer.alloc(0))).toEqual([
      'unpack ok\n',
      'ng refs/heads/a ref_not_allowed: no\n',
      'ng refs/heads/\xc3\xbc refused as a whole\n',
      'flush',
    ]);
  });

  test('is a fatal message where there are bands and no report', () => {
    expect(lines(refusedReport({ report: false, band: 995 }, refs, ['no']) ?? Buffer.alloc(0))).toEqual([
      '\x03no\n',
      'flush',
    ]);
  });

  test('cannot be said to a client that asked for neither', () => {
    expect(refusedReport({ report: false, band: 0 }, refs, ['no'])).toBeUndefined();
  });

  test('has a reason of one line, whatever it is made of', () => {
    const [, report = ''] = lines(
      refusedReport(banded, [['refs/heads/a', 'a\nng refs/heads/b\x1b[31m']], ['x']) ?? Buffer.alloc(0),
    );
    expect(lines(Buffer.from(report.slice(1), 'latin1'))[1]).toBe('ng refs/heads/a a ng refs/heads/b [31m\n');
  });

  test('of many refs is cut into packets that git takes', () => {
    const many = Array.from({ length: 3_000 }, (_, i) => [`refs/heads/b${i}`, 'no'] as const);
    for (const band of [995, 65_515]) {
      const packets = lines(refusedReport({ report: true, band }, many, ['x']) ?? Buffer.alloc(0));
      expect(Math.max(...packets.map(({ length }) => length))).toBeLessThanOrEqual(band + 1);
      const report = packets.filter((packet) => packet[0] === '\x01').map((packet) => packet.slice(1));
      expect(lines(Buffer.from(report.join(''), 'latin1')).length).toBe(3_002);
    }
  });
});

describe('the report of the upstream', () => {
  const report = Buffer.concat([
    pktLine('unpack ok\n'),
    pktLine('ok refs/heads/a\n'),
    pktLine('option refname refs/heads/z\n'),
    pktLine('ng refs/heads/b pre-receive hook declined\n'),
    pktLine('ng refs/heads/unasked x\n'),
    FLUSH_PKT,
  ]);
  const refs = new Set(['refs/heads/a', 'refs/heads/b']);
  const expected = [
    ['refs/heads/a', { ok: true }],
    ['refs/heads/b', { ok: false, reason: 'pre-receive hook declined' }],
  ];
  const inBands = Buffer.concat([
    pktLine('\x02remote words\n'),
    pktLine(Buffer.concat([Buffer.from([1]), report.subarray(0, 20)])),
    pktLine('\x02more words\n'),
    pktLine(Buffer.concat([Buffer.from([1]), report.subarray(20)])),
    FLUSH_PKT,
  ]);

  test.each([
    ['in bands', banded, inBands],
    ['plain', plain, report],
  ])('is read as it passes, %s, however it is cut', (_how, capabilities, bytes) => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 10 }), (cuts) => {
        const at = [0, ...cuts.map((cut) => cut % bytes.length).sort((a, b) => a - b), bytes.length];
        const reader = createReportReader(capabilities, refs);
        const out = at.slice(1).map((end, i) => reader.transform.push(bytes.subarray(at[i], end)));
        expect(Buffer.concat([...out, reader.transform.end()])).toEqual(bytes);
        expect([...reader.results]).toEqual(expected);
        expect(reader.unpackError()).toBeUndefined();
      }),
    );
  });

  test('of a pack that could not be unpacked', () => {
    const reader = createReportReader(plain, refs);
    reader.transform.push(pktLine('unpack index-pack abnormal exit\n'));
    expect(reader.unpackError()).toBe('index-pack abnormal exit');
  });

  test('that cannot be read passes all the same, and nothing is claimed', () => {
    const reader = createReportReader(banded, refs);
    const odd = Buffer.from('what is this');
    expect(reader.transform.push(odd)).toBe(odd);
    expect(reader.transform.push(inBands)).toBe(inBands);
    expect(reader.results.size).toBe(0);
  });
});
