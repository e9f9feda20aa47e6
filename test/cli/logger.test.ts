import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../cli/logger.ts';
import { Credential } from '../../common/credential.ts';
import { createRedactor } from '../../common/redact.ts';

const CANARY = 'ghp_Kq7vTz2mWc9xLr4bNd8sHf3jYp6gUa1eXo5i';

function capture(level: 'debug' | 'info' | 'warn' | 'error' = 'debug') {
  let text = '';
  const to = new Writable({
    write(chunk, _encoding, done) {
      text += chunk;
      done();
    },
  });
  const redactor = createRedactor();
  redactor.add(CANARY);
  redactor.add('plain words as a passphrase');
  return {
    log: createLogger({ level, redactor, to }),
    lines: () => text.split('\n').filter(Boolean),
    text: () => text,
  };
}

describe('a log line', () => {
  it('is one JSON object with level, time and msg', () => {
    const { log, lines } = capture();
    log.info({ port: 8443, nested: { a: [1, null, true] } }, 'listening %s %d');
    const line = JSON.parse(lines()[0] ?? '');
    expect(line).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      port: 8443,
      nested: { a: [1, null, true] },
      msg: 'listening %s %d',
    });
  });

  it('keeps its own fields whatever it is given', () => {
    const { log, lines } = capture();
    log.warn({ msg: 'x', level: 'y', time: 'z', pid: 1 }, 'real');
    expect(lines()[0]?.match(/"msg":/g)).toHaveLength(1);
    expect(JSON.parse(lines()[0] ?? '')).toMatchObject({
      msg: 'real',
      level: 'warn',
      msg_: 'x',
      level_: 'y',
      time_: 'z',
    });
    log.error(new Error('slip') as object, 'real');
    expect(JSON.parse(lines()[1] ?? '')).toMatchObject({ msg: 'real', err: { message: 'slip' } });
  });

  it('follows the level, but an announcement is always made', () => {
    const { log, lines } = capture('error');
    log.debug({}, 'a');
    log.info({}, 'b');
    log.warn({}, 'c');
    log.error({}, 'd');
    log.announce({}, 'ready');
    expect(lines().map((line) => JSON.parse(line).msg)).toEqual(['d', 'ready']);
  });
});

describe('a credential is in no line', () => {
  const deep = new Error('outer', {
    cause: new AggregateError([new Error(`connect to https://u:${CANARY}@forge.example failed`)], 'several', {
      cause: Object.assign(new TypeError('inner'), { request: { headers: { 'x-odd': `Bearer ${CANARY}` } } }),
    }),
  });
  const basic = Buffer.from(`x-access-token:${CANARY}`).toString('base64');
  it.each<[string, object, string]>([
    ['an error with nested causes', { err: deep }, 'failed'],
    ['an error in place of fields', deep, 'failed'],
    ['the message', {}, `upstream said: bad credential ${CANARY}.`],
    ['a header dump', { headers: { authorization: `Basic ${basic}`, cookie: 'a=b' } }, 'got'],
    ['raw headers', { rawHeaders: ['Authorization', `Basic ${basic}`, 'X', CANARY] }, 'got'],
    ['Headers and Map', { a: new Headers({ 'x-token': CANARY }), b: new Map([[CANARY, CANARY]]) }, 'got'],
    ['an array, a set', { a: [`-H ${CANARY}`], b: new Set([CANARY]) }, 'got'],
    ['a key', { [CANARY]: 1 }, 'got'],
    ['a URL', { url: new URL(`https://u:${CANARY}@forge.example/a?token=${CANARY}`) }, 'got'],
    ['a Credential', { credential: new Credential(CANARY) }, String(new Credential(CANARY))],
    ['a passphrase without a pattern', { err: new Error('bad: plain words as a passphrase') }, 'x'],
    ['a stack that quotes it', { err: Object.assign(new Error('x'), { stack: `at f(${CANARY})` }) }, 'x'],
    ['JSON in a string', { body: JSON.stringify({ token: CANARY }) }, 'x'],
  ])('%s', (_name, fields, message) => {
    const { log, text } = capture();
    for (const write of [log.debug, log.info, log.warn, log.error, log.announce]) write(fields, message);
    expect(text().split('\n').filter(Boolean)).toHaveLength(5);
    for (const needle of [CANARY, CANARY.slice(4), basic, 'plain words as'])
      expect(text()).not.toContain(needle);
  });

  it('and the rest of the error is kept', () => {
    const { log, text } = capture();
    log.error({ err: deep }, 'failed');
    for (const word of ['outer', 'several', 'inner', 'forge.example']) expect(text()).toContain(word);
  });
});

describe('the process', () => {
  it('leaves no line behind when it exits, and keeps standard output for answers where asked', async () => {
    const script = `
      import { createLogger } from ${JSON.stringify(join(import.meta.dirname, '../../cli/logger.ts'))};
      import { createRedactor } from ${JSON.stringify(join(import.meta.dirname, '../../common/redact.ts'))};
      const log = createLogger({ level: 'info', redactor: createRedactor(), to: process.argv[1] });
      for (let i = 0; i < 2000; i++) log.info({ i }, 'line');
      process.exit(0);`;
    for (const to of ['stdout', 'stderr'] as const) {
      const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, to], {
        maxBuffer: 1 << 24,
      });
      const out = await run;
      expect(out[to].trimEnd().split('\n')).toHaveLength(2000);
      expect(out[to === 'stdout' ? 'stderr' : 'stdout']).toBe('');
    }
  });
});
