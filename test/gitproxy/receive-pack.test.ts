import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { createPktReader, FLUSH_PKT, pktLine } from '../../gitproxy/pkt-line.ts';
import {
  createPushHeadReader,
  MAX_HEAD_BYTES,
  operationOf,
  type PushHead,
  PushHeadError,
} from '../../gitproxy/receive-pack.ts';

const zero = '0'.repeat(40);
const one = '1'.repeat(40);
const two = '2'.repeat(40);
const capabilities = ' report-status side-band-64k agent=git/2.39.5';

function read(chunks: readonly Buffer[]): PushHead | undefined {
  const reader = createPushHeadReader();
  let head: PushHead | undefined;
  for (const chunk of chunks) head ??= reader.push(chunk);
  return head;
}

const body = (...lines: string[]): Buffer =>
  Buffer.concat([...lines.map((line) => pktLine(line)), FLUSH_PKT]);
const first = (line: string, list = capabilities): string => `${line}\0${list}`;

function refusalOf(bytes: Buffer): string {
  try {
    read([bytes]);
  } catch (error) {
    if (error instanceof PushHeadError) return error.refusal.code;
    throw error;
  }
  return 'read';
}

describe('the command list of a push', () => {
  test.each<[string, Buffer, string[]]>([
    ['one update', body(first(`${one} ${two} refs/heads/main`)), ['update refs/heads/main']],
    [
      'several',
      body(
        first(`${zero} ${two} refs/heads/a`),
        `${one} ${zero} refs/heads/b`,
        `${one} ${two} refs/tags/c\n`,
      ),
      ['create refs/heads/a', 'delete refs/heads/b', 'update refs/tags/c'],
    ],
    [
      'of a shallow clone',
      body(`shallow ${one}`, `shallow ${two}\n`, first(`${zero} ${two} refs/heads/a`)),
      ['create refs/heads/a'],
    ],
    ['without capabilities', body(`${zero} ${two} refs/heads/a\n`), ['create refs/heads/a']],
    ['of nothing', body(), []],
    [
      'with a name of odd bytes',
      body(first(`${zero} ${one} refs/heads/\xff\xfe x`)),
      ['create refs/heads/\xff\xfe x'],
    ],
    ['with a zero to zero', body(first(`${zero} ${zero} refs/heads/a`)), ['nothing refs/heads/a']],
    [
      'of SHA-256 names',
      body(first(`${'0'.repeat(64)} ${'a'.repeat(64)} refs/heads/a`, ' report-status object-format=sha256')),
      ['create refs/heads/a'],
    ],
  ])('%s', (_what, bytes, expected) => {
    const behind = Buffer.concat([bytes, Buffer.from('PACK\0\0\0\x02')]);
    const shown = (head: PushHead | undefined): string[] | undefined =>
      head?.commands.map((command) => `${operationOf(command)} ${command.ref}`);
    expect(shown(read([behind]))).toEqual(expected);
    // The boundary of a chunk falls anywhere, also inside the first length; and each byte can come alone.
    for (let cut = 0; cut <= behind.length; cut++)
      expect(shown(read([behind.subarray(0, cut), behind.subarray(cut)]))).toEqual(expected);
    expect(shown(read([...behind].map((byte) => Buffer.from([byte]))))).toEqual(expected);
  });

  test('tells how the client wants its report', () => {
    const of = (list: string) => read([body(first(`${zero} ${one} refs/heads/a`, list))])?.capabilities;
    expect(of(' report-status side-band-64k')).toEqual({ report: true, band: 65_515 });
    expect(of('report-status-v2 atomic quiet object-format=sha1 agent=x\n')).toEqual({
      report: true,
      band: 0,
    });
    expect(of(' side-band')).toEqual({ report: false, band: 995 });
    expect(of('x-report-status report-statuses')).toEqual({ report: false, band: 0 });
    expect(of('')).toEqual({ report: false, band: 0 });
  });

  test.each<[string, Buffer, string]>([
    ['a signed push', body('push-cert\0 report-status'), 'push_cert_not_supported'],
    [
      'a certificate behind commands',
      body(first(`${zero} ${one} refs/heads/a`), 'push-cert\n'),
      'push_cert_not_supported',
    ],
    [
      'a second capability list',
      body(first(`${zero} ${one} refs/heads/a`), first(`${zero} ${one} refs/heads/b`)),
      'malformed_request',
    ],
    ['two NULs', body(`${zero} ${one} refs/heads/a\0report-status\0x`), 'malformed_request'],
    [
      'a shallow line behind commands',
      body(first(`${zero} ${one} refs/heads/a`), `shallow ${one}`),
      'malformed_request',
    ],
    ['junk behind a shallow name', body(`shallow ${one} x`), 'malformed_request'],
    ['capabilities on a shallow line', body(`shallow ${one}\0 report-status`), 'malformed_request'],
    ['an empty line', Buffer.from('00040000'), 'malformed_request'],
    [
      'a delimiter for a flush',
      Buffer.concat([pktLine(first(`${zero} ${one} refs/heads/a`)), Buffer.from('0001')]),
      'malformed_request',
    ],
    [
      'a response end for a flush',
      Buffer.concat([pktLine(first(`${zero} ${one} refs/heads/a`)), Buffer.from('0002')]),
      'malformed_request',
    ],
    ['an error line', body('ERR no'), 'malformed_request'],
    ['no name', body(`${zero} ${one} `), 'malformed_request'],
    ['tabs', body(`${zero}\t${one}\trefs/heads/a`), 'malformed_request'],
    ['upper-case hex', body(`${zero} ${'A'.repeat(40)} refs/heads/a`), 'malformed_request'],
    ['a short object name', body(`${zero} ${'a'.repeat(39)} refs/heads/a`), 'malformed_request'],
    ['mixed lengths', body(`${zero} ${'a'.repeat(64)} refs/heads/a`), 'malformed_request'],
    [
      'SHA-256 names undeclared',
      body(first(`${'0'.repeat(64)} ${'a'.repeat(64)} refs/heads/a`)),
      'malformed_request',
    ],
    [
      'SHA-1 names declared SHA-256',
      body(first(`${zero} ${one} refs/heads/a`, ' object-format=sha256')),
      'malformed_request',
    ],
    [
      'an unknown object format',
      body(first(`${zero} ${one} refs/heads/a`, ' object-format=md5')),
      'malformed_request',
    ],
    [
      'two object formats',
      body(first(`${zero} ${one} refs/heads/a`, ' object-format=sha1 object-format=sha256')),
      'malformed_request',
    ],
    [
      'control characters in the capabilities',
      body(first(`${zero} ${one} refs/heads/a`, ' report-status\tatomic')),
      'malformed_request',
    ],
    ['a pack at once', Buffer.from('PACK\0\0\0\x02'), 'malformed_request'],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n'), 'malformed_request'],
  ])('is refused with %s', (_what, bytes, code) => {
    expect(refusalOf(bytes)).toBe(code);
  });

  const asking = (list = ' report-status push-options'): Buffer =>
    body(first(`${zero} ${one} refs/heads/a`, list));
  const section = (...options: string[]): Buffer => body(...options);

  test.each<[string, Buffer, readonly string[] | undefined]>([
    ['two of them', Buffer.concat([asking(), section('ci.skip', 'a=b c\n')]), ['ci.skip', 'a=b c']],
    ['none after all', Buffer.concat([asking(), section()]), []],
    ['with a value of the feature', Buffer.concat([asking(' push-options=1'), section('x')]), ['x']],
    [
      'an empty one, and one of odd bytes',
      Buffer.concat([asking(), section('', '\xff=\xfe')]),
      ['', '\xff=\xfe'],
    ],
    ['not negotiated', asking(' report-status xpush-options push-optionsx'), undefined],
    ['of an empty push', body(), undefined],
  ])('options: %s', (_what, bytes, expected) => {
    const behind = Buffer.concat([bytes, Buffer.from('PACK')]);
    for (let cut = 0; cut <= behind.length; cut++)
      expect(read([behind.subarray(0, cut), behind.subarray(cut)])?.options).toEqual(expected);
    expect(read([...behind].map((byte) => Buffer.from([byte])))?.options).toEqual(expected);
    // Before the last flush nothing is decided.
    expect(read([bytes.subarray(0, -1)])).toBeUndefined();
  });

  test.each<[string, Buffer, string]>([
    ['a NUL', section('ci.skip\0x'), 'malformed_request'],
    ['a line feed inside', section('ci.skip\nmr.create'), 'malformed_request'],
    ['a pack in place of the section', Buffer.from('PACK\0\0\0\x02'), 'malformed_request'],
    ['a delimiter for a flush', Buffer.from('0005x0001'), 'malformed_request'],
    [
      'more than is bearable',
      section(...Array.from({ length: 80 }, () => 'x'.repeat(1_000))),
      'push_not_allowed',
    ],
  ])('is refused with options that have %s', (_what, bytes, code) => {
    expect(refusalOf(Buffer.concat([asking(), bytes]))).toBe(code);
  });

  test('without an end is cut at a bound, and keeps its capabilities for the answer', () => {
    const reader = createPushHeadReader();
    const line = pktLine(`${zero} ${one} refs/heads/${'x'.repeat(900)}`);
    let pushed = 0;
    try {
      reader.push(pktLine(first(`${zero} ${one} refs/heads/a`)));
      for (; pushed < 2 * MAX_HEAD_BYTES; pushed += line.length) reader.push(line);
    } catch (error) {
      expect((error as PushHeadError).refusal.code).toBe('too_many_refs');
      expect((error as PushHeadError).capabilities?.report).toBe(true);
    }
    expect(pushed).toBeLessThan(MAX_HEAD_BYTES + 2 * line.length);
  });
});

describe('git receive-pack on the same bytes', () => {
  let repo: string;
  let commit: string;
  let hooks: string;
  beforeAll(() => {
    repo = mkdtempSync(join(tmpdir(), 'postern-test-receive-'));
    hooks = mkdtempSync(join(tmpdir(), 'postern-test-hooks-'));
    // Says how many options git read, and which.
    const hook =
      '#!/bin/sh\ni=0; echo "count=$GIT_PUSH_OPTION_COUNT" >&2\n' +
      'while [ $i -lt $((GIT_PUSH_OPTION_COUNT)) ]; do eval "printf \'option=%s\\n\' \\"\\$GIT_PUSH_OPTION_$i\\"" >&2; i=$((i+1)); done\n';
    writeFileSync(join(hooks, 'pre-receive'), hook, { mode: 0o755 });
    const git = (...args: string[]): string =>
      execFileSync('git', ['-C', repo, '-c', 'user.name=t', '-c', 'user.email=t@localhost', ...args], {
        encoding: 'utf8',
      }).trim();
    git('init', '-q', '--bare');
    const tree = git('hash-object', '-w', '-t', 'tree', '/dev/null');
    commit = git('commit-tree', tree, '-m', 'x');
  });

  // No object, its trailer: enough for a ref to an object that is there.
  const empty = Buffer.from('5041434b0000000200000000', 'hex');
  const pack = Buffer.concat([empty, createHash('sha1').update(empty).digest()]);

  /** The refs that git took for commands, in order; undefined: it gave up on the bytes. */
  function gitReads(bytes: Buffer, onStderr?: (text: string) => void): string[] | undefined {
    const settings = ['-c', 'receive.autogc=false', '-c', 'core.fsync=none', '-c', `core.hooksPath=${hooks}`];
    if (onStderr) settings.push('-c', 'receive.advertisePushOptions=true');
    const { stdout, stderr } = spawnSync('git', [...settings, 'receive-pack', '--stateless-rpc', repo], {
      input: bytes,
      env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
    });
    onStderr?.(stderr.toString('latin1'));
    if (stdout.length === 0) return [];
    const refs: string[] = [];
    let unpacked = false;
    createPktReader().push(stdout, (pkt) => {
      if (pkt.kind !== 'line') return;
      const [, verdict, ref = ''] = /^(ok|ng|unpack) (\S+)/.exec(pkt.payload.toString('latin1')) ?? [];
      if (verdict === 'unpack') unpacked = true;
      else if (verdict) refs.push(ref);
    });
    return unpacked ? refs : undefined;
  }

  test('never sees other commands than ours', { timeout: 120_000 }, () => {
    const oid = fc
      .constantFrom(
        ...Array.from({ length: 6 }, () => ['zero', 'commit', 'other'] as const).flat(),
        'upper',
        'short',
      )
      .map(
        (name: 'zero' | 'commit' | 'other' | 'upper' | 'short') => () =>
          ({ zero, commit, other: one, upper: commit.toUpperCase(), short: commit.slice(1) })[name] ?? zero,
      );
    const name = fc.oneof(
      fc.constantFrom(
        'refs/heads/a',
        'refs/heads/b',
        'refs/heads/c/d',
        'refs/tags/t',
        'refs/heads/x.lock',
        'HEAD',
      ),
      fc.stringMatching(/^refs\/heads\/[a-z]{1,4}$/),
    );
    const ending = fc.constantFrom(
      ...Array.from({ length: 8 }, () => ['', '\n']).flat(),
      '\0 report-status',
      '\0report-status atomic\n',
      '\n\0report-status',
      '\0\0report-status',
    );
    const command = fc.tuple(oid, oid, name, ending).map(
      ([old, next, ref, end]) =>
        () =>
          pktLine(`${old()} ${next()} ${ref}${end}`),
    );
    const odd = fc.constantFrom(
      () => Buffer.from('0000'),
      () => Buffer.from('0001'),
      () => Buffer.from('0004'),
      () => Buffer.from('0003'),
      () => pktLine(`shallow ${commit}`),
      () => pktLine(`shallow ${commit}junk`),
      () => pktLine('push-cert\0report-status'),
      () => pktLine('ERR x'),
      () => pktLine(''),
      () => Buffer.from('00ff'),
    );
    const always = fc.tuple(oid, oid, name).map(
      ([old, next, ref]) =>
        () =>
          pktLine(`${old()} ${next()} ${ref}\0 report-status`),
    );
    const list = fc.tuple(
      always,
      fc.array(fc.oneof({ weight: 12, arbitrary: command }, { weight: 1, arbitrary: odd }), { maxLength: 4 }),
    );
    let agreed = 0;
    fc.assert(
      fc.property(list, ([start, rest]) => {
        const bytes = Buffer.concat([start(), ...rest.map((part) => part()), FLUSH_PKT, pack]);
        let ours: PushHead | undefined;
        try {
          ours = read([bytes]);
        } catch (error) {
          if (error instanceof PushHeadError) return; // stricter is safe
          throw error;
        }
        if (!ours || ours.commands.some(({ ref }) => /[\s\x7f]/.test(ref))) return;
        expect(gitReads(bytes)).toEqual(ours.commands.map(({ ref }) => ref));
        agreed++;
      }),
      { numRuns: 400 },
    );
    expect(agreed).toBeGreaterThan(100);
  });

  test('never sees other push options than ours', { timeout: 120_000 }, () => {
    const feature = fc.constantFrom(
      ...[' push-options', ' atomic push-options', ' push-options=yes', ' push-options agent=x'],
      ...[' push-options object-format=sha1', ' push-options quiet'],
      ...['', ' xpush-options', ' push-optionsx', ' push-options\n'],
    );
    const option = fc.oneof(
      fc.constantFrom('ci.skip', 'mr.create', 'a=b', '', 'x\n', 'x\n\n', 'a\0b', 'ERR x', '\xff', ' x '),
      fc.stringMatching(/^[ -~]{1,12}$/),
    );
    const ending = fc.constantFrom(
      ...Array.from({ length: 8 }, () => '0000'),
      '0001',
      '0002',
      '00000000',
      '',
    );
    let agreed = 0;
    fc.assert(
      fc.property(
        feature,
        fc.array(option, { maxLength: 4 }),
        ending,
        fc.constantFrom(true, true, true, false),
        (list, options, end, negotiated) => {
          const bytes = Buffer.concat([
            body(`${zero} ${commit} refs/heads/o\0report-status${list}`),
            ...options.map((each) => pktLine(each)),
            Buffer.from(end),
            pack,
          ]);
          let ours: PushHead | undefined;
          try {
            ours = read([bytes]);
          } catch (error) {
            if (error instanceof PushHeadError) return;
            throw error;
          }
          if (!ours) return;
          let said = '';
          // Not negotiated, the section is a broken pack to git: no ref moves by it.
          const refs = gitReads(bytes, negotiated ? (text) => (said = text) : undefined);
          expect([undefined, '', 'refs/heads/o']).toContain(refs?.join()); // git gives up on some
          execFileSync('git', ['-C', repo, 'update-ref', '-d', 'refs/heads/o']);
          if (!negotiated || !/^count=/m.test(said)) return;
          const seen = [...said.matchAll(/^option=(.*)$/gm)].map(([, text]) => text);
          expect(seen).toEqual([...(ours.options ?? [])]);
          agreed++;
        },
      ),
      { numRuns: 120 },
    );
    expect(agreed).toBeGreaterThan(10);
  });

  test('takes what ours takes, in every shape that git writes', () => {
    const lines = [
      first(`${zero} ${commit} refs/heads/n1`, ' report-status'),
      `${zero} ${commit} refs/heads/n2`,
    ];
    const bytes = Buffer.concat([body(`shallow ${commit}`, ...lines), pack]);
    expect(gitReads(bytes)).toEqual(['refs/heads/n1', 'refs/heads/n2']);
    expect(read([bytes])?.commands.map(({ ref }) => ref)).toEqual(['refs/heads/n1', 'refs/heads/n2']);
  });
});
