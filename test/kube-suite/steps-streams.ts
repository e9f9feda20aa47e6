// Streams into pods: logs, exec in its forms, attach, cp, port-forward.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Step, SuiteContext } from './suite.ts';

const pods = new WeakMap<SuiteContext, Promise<string>>();

/** A pod that stays as long as the target does, made when a step first wants it. */
function podOf(context: SuiteContext): Promise<string> {
  const { kubectl, image } = context;
  const make = async (): Promise<string> => {
    const pod = 'suite-pod';
    await kubectl.ok(['run', pod, `--image=${image}`, '--restart=Never', '--', 'sleep', '600']);
    await kubectl.ok(['wait', '--for=condition=Ready', `pod/${pod}`, '--timeout=60s']);
    return pod;
  };
  const known = pods.get(context) ?? make();
  pods.set(context, known);
  return known;
}

const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');

function numbers(upTo: number): string {
  let text = '';
  for (let i = 1; i <= upTo; i++) text += `${i}\n`;
  return text;
}

export const streamSteps: readonly Step[] = [
  {
    name: 'logs, logs --tail, logs -f through silence',
    needs: ['logs'],
    async run(context) {
      const { kubectl, emitLog, idleSeconds } = context;
      const pod = await podOf(context);
      for (const line of ['one', 'two', 'three']) emitLog?.(pod, line);
      assert.match(await kubectl.ok(['logs', pod]), /one\ntwo\nthree\n$/);
      assert.equal(await kubectl.ok(['logs', pod, '--tail=2']), 'two\nthree\n');
      assert.match(
        await kubectl.ok(['logs', pod, '--timestamps', '--tail=1']),
        /^\d{4}-\d\d-\d\dT\S+Z three\n$/,
      );
      const follow = kubectl.start(['logs', '-f', pod, '--tail=1']);
      try {
        await follow.until(/^three\n/);
        await sleep(idleSeconds * 1000);
        emitLog?.(pod, 'four');
        await follow.until(/^three\nfour\n$/);
      } finally {
        await follow.stop();
      }
    },
  },
  {
    name: 'exec: output, error output, exit status, a program that is not there',
    needs: ['streams'],
    async run(context) {
      const { kubectl } = context;
      const pod = await podOf(context);
      assert.equal(await kubectl.ok(['exec', pod, '--', 'echo', 'hello']), 'hello\n');
      const failed = await kubectl.run(['exec', pod, '--', 'sh', '-c', 'echo out; echo err >&2; exit 7']);
      assert.equal(failed.code, 7);
      assert.equal(failed.stdout, 'out\n');
      assert.match(failed.stderr, /^err\ncommand terminated with exit code 7/);
      const absent = await kubectl.run(['exec', pod, '--', 'no-such-program']);
      assert.notEqual(absent.code, 0);
      assert.match(absent.stderr, /no-such-program/);
    },
  },
  {
    name: 'exec of seq 1 2000000 arrives whole',
    needs: ['streams'],
    async run(context) {
      const pod = await podOf(context);
      const got = await context.kubectl.bytes(['exec', pod, '--', 'seq', '1', '2000000']);
      assert.equal(sha256(got), sha256(numbers(2_000_000)));
    },
  },
  {
    name: 'exec -i: five megabytes in and out again, and the end of the input is told',
    needs: ['streams'],
    async run(context) {
      const input = randomBytes(5_000_000);
      const pod = await podOf(context);
      const back = await context.kubectl.bytes(['exec', '-i', pod, '--', 'cat'], { input });
      assert.equal(sha256(back), sha256(input));
      const sum = await context.kubectl.ok(['exec', '-i', pod, '--', 'sha256sum'], { input });
      assert.match(sum, new RegExp(`^${sha256(input)}`));
    },
  },
  {
    name: 'exec -it in a terminal',
    needs: ['streams'],
    async run(context) {
      const { kubectl } = context;
      const pod = await podOf(context);
      // `script` gives kubectl the terminal that -t wants; here, in a shell of its own, for its own quoting.
      const command = `${kubectl.binary} exec -it ${pod} -- sh -c "test -t 0 && echo terminal; read line; echo got \\$line"`;
      const script = kubectl.start(['-qec', command, '/dev/null'], { program: 'script' });
      try {
        await script.until(/terminal/);
        script.child.stdin?.write('typed\n');
        await script.until(/got typed/);
        await script.ended();
      } finally {
        await script.stop('SIGKILL');
      }
    },
  },
  {
    name: 'exec with a URL of 48 KB',
    needs: ['streams'],
    async run(context) {
      const words = Array.from({ length: 1000 }, (_, i) => String(i).padStart(40, 'x'));
      const pod = await podOf(context);
      const said = await context.kubectl.ok(['exec', pod, '--', 'echo', ...words]);
      assert.equal(said, `${words.join(' ')}\n`);
    },
  },
  {
    name: 'attach -i',
    needs: ['streams', 'logs'],
    async run(context) {
      const pod = await podOf(context);
      const attached = context.kubectl.start(['attach', '-i', pod]);
      try {
        // What is said before the stream is open reaches nobody, so it is said until it is heard.
        const heard = attached.until(/from the container/).then(() => true);
        while (!(await Promise.race([heard, sleep(50)]))) context.emitLog?.(pod, 'from the container');
        attached.child.stdin?.end('to the container\n');
        await attached.until(/to the container/);
        assert.equal((await attached.ended()).code, 0);
      } finally {
        await attached.stop('SIGKILL');
      }
    },
  },
  {
    name: 'cp of five megabytes both ways',
    needs: ['streams'],
    async run(context) {
      const { kubectl, folder } = context;
      const bytes = randomBytes(5_000_000);
      writeFileSync(join(folder, 'there'), bytes);
      const pod = await podOf(context);
      await kubectl.ok(['cp', 'there', `${pod}:copied`]);
      assert.match(await kubectl.ok(['exec', pod, '--', 'sha256sum', 'copied']), new RegExp(sha256(bytes)));
      await kubectl.ok(['cp', `${pod}:copied`, 'back']);
      assert.equal(sha256(readFileSync(join(folder, 'back'))), sha256(bytes));
    },
  },
  {
    name: 'port-forward: ten thousand lines echoed, several connections at once',
    needs: ['streams', 'echo'],
    async run(context) {
      const pod = await podOf(context);
      const forward = context.kubectl.start(['port-forward', '--address=127.0.0.1', `pod/${pod}`, ':7']);
      try {
        await forward.until(/Forwarding from 127\.0\.0\.1:\d+/);
        const port = Number(/127\.0\.0\.1:(\d+)/.exec(forward.stdout())?.[1]);
        const lines = numbers(10_000);
        const answers = await Promise.all(Array.from({ length: 4 }, () => echo(port, lines)));
        for (const answer of answers) assert.equal(sha256(answer), sha256(lines));
      } finally {
        await forward.stop();
      }
    },
  },
];

/** Sends, half-closes, and reads to the end. */
function echo(port: number, text: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('error', reject);
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('end', () => resolve(Buffer.concat(chunks)));
    socket.end(text);
  });
}
