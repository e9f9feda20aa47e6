import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPktReader, FLUSH_PKT, MAX_PKT, type Pkt, PktError, pktLine } from '../../gitproxy/pkt-line.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');
const show = (pkt: Pkt): string => (pkt.kind === 'line' ? pkt.payload.toString('latin1') : `<${pkt.kind}>`);

function readAll(chunks: readonly Buffer[]): { pkts: string[]; between: boolean } {
  const reader = createPktReader();
  const pkts: string[] = [];
  for (const chunk of chunks) {
    expect(reader.push(chunk, (pkt) => void pkts.push(show(pkt)))).toBe(chunk.length);
  }
  return { pkts, between: reader.isBetween() };
}

describe('pkt-lines', () => {
  test('are read whole, with the special ones', () => {
    const stream = ['0006a\n', '0004', '00050', '0000', '0001', '0002', '0005b'].join('');
    const pkts = ['a\n', '', '0', '<flush>', '<delimiter>', '<end>', 'b'];
    expect(readAll([bytes(stream)])).toEqual({ pkts, between: true });
  });

  test('come out as they went in, however they are cut', () => {
    const line = fc.oneof(fc.string({ maxLength: 40 }), fc.constant('x'.repeat(3_000)));
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 20 }), (lines, cuts) => {
        const latin = lines.map((text) => Buffer.from(text).toString('latin1'));
        const stream = Buffer.concat([...latin.map((text) => pktLine(text)), FLUSH_PKT]);
        const at = [0, ...cuts.map((cut) => cut % stream.length).sort((a, b) => a - b), stream.length];
        const chunks = at.slice(1).map((end, i) => stream.subarray(at[i], end));
        expect(readAll(chunks)).toEqual({ pkts: [...latin, '<flush>'], between: true });
      }),
    );
  });

  test('stop where the caller says so, to the byte', () => {
    const reader = createPktReader();
    const stream = bytes('0005a0000PACK');
    let at = -1;
    const used = reader.push(stream, (pkt, consumed) => {
      at = consumed;
      return pkt.kind === 'flush' ? 'stop' : undefined;
    });
    expect([used, at, stream.subarray(used).toString()]).toEqual([9, 9, 'PACK']);
  });

  test('at their longest', () => {
    const longest = pktLine(Buffer.alloc(MAX_PKT - 4, 'x'));
    expect(longest.subarray(0, 4).toString()).toBe('fff0');
    expect(readAll([longest]).pkts[0]?.length).toBe(MAX_PKT - 4);
    expect(() => pktLine(Buffer.alloc(MAX_PKT - 3))).toThrow(PktError);
  });

  test.each(['0003', 'fff1', 'ffff', '00 4', '+004', '0x04', '00AF', 'zzzz', '-001', '\0\0\0\0', 'PACK'])(
    'that begin with %j are none',
    (text) => {
      expect(() => readAll([bytes(text)])).toThrow(PktError);
    },
  );

  test('cut short are not taken for whole ones', () => {
    expect(readAll([bytes('0006a')])).toEqual({ pkts: [], between: false });
    expect(readAll([bytes('00')])).toEqual({ pkts: [], between: false });
  });
});
