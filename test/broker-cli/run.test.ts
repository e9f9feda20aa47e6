// `postern run` as a process around a process: status, signals, terminal, renewal, revocation, and what every kind of end
// leaves behind. The guards are off: what is delivered here are variables and the login of a registry.

import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitFor } from '../support/wait.ts';
import {
  configure,
  freePort,
  launcher,
  type Ran,
  run,
  type Server,
  scratch,
  serve,
} from '../system/harness.ts';

const { folder, remove } = scratch('run');
const state = join(folder, 'state');
const records = join(state, 'postern/lease-folders');
const TOKEN = 'control-token-of-the-hub-0123456789';
const VALUE = 'value-of-the-variable-0123';
const env = {
  ...process.env,
  XDG_STATE_HOME: state,
  XDG_RUNTIME_DIR: '/dev/shm',
  GIT_SSL_CAINFO: '/etc/company.pem',
};
let config: string;
let server: Server;
let control: string;

beforeAll(async () => {
  control = `127.0.0.1:${await freePort()}`;
  config = configure(folder, {
    git: { enabled: false },
    control: {
      listen: control,
      tokens: [{ name: 'hub-1', role: 'hub', sha256: createHash('sha256').update(TOKEN).digest('hex') }],
    },
    log: { level: 'warn' },
  });
  server = await serve(config, env);
});
afterAll(async () => {
  await server.kill();
  remove();
});

function postern(...args: string[]): Promise<Ran> {
  return run(process.execPath, [launcher, ...args, '--config', config, '--json'], { env });
}
async function ok(...args: string[]) {
  const ran = await postern(...args);
  expect(ran, args.join(' ')).toMatchObject({ code: 0 });
  return JSON.parse(ran.out);
}
const about = (project: string) => ['run', '--project', project, '--config', config];
const once = (project: string, ...command: string[]): Promise<Ran> =>
  run(process.execPath, [launcher, ...about(project), '--', ...command], { env });

interface Running {
  readonly child: ChildProcess;
  readonly exit: Promise<number | NodeJS.Signals | null>;
  out(): string;
  err(): string;
}
function start(
  args: readonly string[],
  script: string,
  own: object = env,
  node: readonly string[] = [],
): Running {
  const child = spawn(process.execPath, [...node, launcher, ...args, '--', 'sh', '-c', script], {
    env: own as NodeJS.ProcessEnv,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    said.out += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    said.err += chunk.toString();
  });
  const exit = new Promise<number | NodeJS.Signals | null>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal)),
  );
  return { child, exit, out: () => said.out, err: () => said.err };
}
const said = (running: Running, text: string): Promise<void> =>
  waitFor(`${text} from the command`, () => running.out().includes(text), 30_000);

/** Grants of one project: a variable, and where wanted the login of a registry for a shorter time. */
async function granted(
  project: string,
  registryTtl?: string,
): Promise<{ variable: string; registry?: string }> {
  const grant = async (secret: string, ...more: string[]): Promise<string> =>
    (await ok('grant', 'create', secret, '--to', `project:${project}`, ...more)).grantId;
  return {
    variable: await grant('variable'),
    ...(registryTtl && {
      registry: await grant('login', '--registry', 'registry.example.com', '--ttl', registryTtl),
    }),
  };
}
const folders = (): string[] => (existsSync(records) ? readdirSync(records) : []);
const leases = async (project: string) => (await ok('lease', 'list', '--project', project)).leases;
async function nothingLeft(project: string): Promise<void> {
  expect(folders()).toEqual([]);
  expect(await leases(project)).toEqual([]);
}

beforeAll(async () => {
  const file = join(folder, 'payload');
  writeFileSync(file, JSON.stringify({ VALUE }), { mode: 0o600 });
  await ok('secret', 'mint', 'variable', '--kind', 'env', '--file', file);
  writeFileSync(file, 'robot:registry-password-1');
  await ok('secret', 'mint', 'login', '--kind', 'registry', '--file', file);
});

describe('status and environment', () => {
  beforeAll(() => granted('/srv/env'));

  test.each([
    ['its own', ['sh', '-c', 'exit 7'], 7],
    ['of a signal', ['sh', '-c', 'kill -KILL $$'], 137],
    ['of a command that is not there', ['no-such-command-here'], 127],
    ['of a file that can not be run', ['/etc/passwd'], 126],
  ])('the exit status is %s', async (_what, command, code) => {
    expect(await once('/srv/env', ...command)).toMatchObject({ code, out: '' });
    await nothingLeft('/srv/env');
  });

  test("flags of the command are the command's, its input is ours, and what configures Postern stays here", async () => {
    const script = 'cat; printf "%s|" "$@"; env | sort | grep -E "POSTERN|VALUE|GIT_"';
    const ran = await run(
      process.execPath,
      [launcher, ...about('/srv/env'), '--', 'sh', '-c', script, '-', '--json', '--help', '-x'],
      { env: { ...env, POSTERN_LOG_LEVEL: 'error' }, input: 'typed\n' },
    );
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect(ran.out).toBe(`typed\n--json|--help|-x|GIT_SSL_CAINFO=/etc/company.pem\nVALUE=${VALUE}\n`);
  });

  test('a project is needed, and a command', async () => {
    expect(await run(process.execPath, [launcher, 'run', '--config', config, '--', 'true'])).toMatchObject({
      code: 2,
    });
    expect(await run(process.execPath, [launcher, ...about('/p')])).toMatchObject({ code: 2 });
  });

  test('a terminal is handed through', async () => {
    const line = [
      process.execPath,
      launcher,
      ...about('/srv/env'),
      '--',
      'sh',
      '-c',
      "'test -t 0 && test -t 1 && echo a terminal'",
    ];
    const ran = await run('script', ['-qec', line.join(' '), '/dev/null'], { env });
    expect(ran.out).toContain('a terminal');
    expect(ran.code).toBe(0);
  });

  test('through --server with the token of a hub, from where there is no configuration', async () => {
    const home = join(folder, 'elsewhere');
    mkdirSync(home);
    writeFileSync(join(home, 'token'), TOKEN, { mode: 0o600 });
    const remote = {
      PATH: process.env.PATH,
      HOME: home,
      POSTERN_TOKEN_FILE: join(home, 'token'),
      POSTERN_CA_FILE: join(folder, 'var/ca.pem'),
    };
    const args = [
      'run',
      '--server',
      `https://${control}`,
      '--project',
      '/srv/env',
      '--',
      'sh',
      '-c',
      'echo "$VALUE $POSTERN_TOKEN_FILE"',
    ];
    const ran = await run(process.execPath, [launcher, ...args], { env: remote, cwd: home });
    expect(ran).toEqual({ code: 0, out: `${VALUE} \n`, err: '' });
    expect((await ok('audit', 'list', '--action', 'secret.release', '--limit', '1')).records[0].actor).toBe(
      'hub-1',
    );
  });

  test('without a server nothing runs and nothing stays', async () => {
    const other = configure(join(folder, 'nowhere'), {});
    const ran = await run(
      process.execPath,
      [launcher, 'run', '--project', 'p', '--config', other, '--', 'echo', 'ran'],
      { env },
    );
    expect(ran).toMatchObject({ code: 1, out: '' });
    expect(folders()).toEqual([]);
  });
});

test('a server that never answers holds nobody: SIGTERM ends it, and nothing stays', async () => {
  const socket = join(folder, 'stuck.sock');
  const asked: Socket[] = [];
  const stuck = createServer((connection) => void asked.push(connection)).listen(socket);
  const other = configure(join(folder, 'stuck'), { control: { socket } });
  const running = start(['run', '--project', 'p', '--config', other], 'echo ran');
  await waitFor('the question', () => asked.length > 0);
  running.child.kill('SIGTERM');
  expect(await running.exit).toBe(143);
  expect(running.out()).toBe('');
  expect(folders()).toEqual([]);
  for (const connection of asked) connection.destroy();
  stuck.close();
});

describe('signals', () => {
  beforeAll(() => granted('/srv/signals', '1h'));

  test.each(['TERM', 'INT', 'HUP', 'QUIT', 'USR1', 'USR2', 'WINCH'])(
    'SIG%s reaches the command, which decides',
    async (name) => {
      const running = start(
        about('/srv/signals'),
        `trap 'echo got; exit 9' ${name}; echo ready; while :; do sleep 0.05; done`,
      );
      await said(running, 'ready');
      running.child.kill(`SIG${name}` as NodeJS.Signals);
      expect(await running.exit).toBe(9);
      expect(running.out()).toBe('ready\ngot\n');
      await nothingLeft('/srv/signals');
    },
  );

  test('a command that does not mind SIGTERM ends of it, and the files are gone', async () => {
    const running = start(about('/srv/signals'), 'echo "$DOCKER_CONFIG"; exec sleep 60');
    await said(running, '\n');
    const dir = running.out().trim();
    expect(existsSync(join(dir, 'config.json'))).toBe(true);
    running.child.kill('SIGTERM');
    expect(await running.exit).toBe(143);
    expect(existsSync(dir)).toBe(false);
    await nothingLeft('/srv/signals');
  });
});

describe('behind the launcher that an old node needs', () => {
  beforeAll(() => granted('/srv/launched', '1h'));
  const old = [
    '--import',
    `data:text/javascript,if (!process.channel) Object.defineProperty(process.versions, 'node', { value: '20.1.0' })`,
  ];

  test('signals and status go through once', async () => {
    const script = `trap 'echo got' INT; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done`;
    const running = start(about('/srv/launched'), script, env, old);
    await said(running, 'ready');
    running.child.kill('SIGINT');
    await said(running, 'got');
    running.child.kill('SIGTERM');
    expect(await running.exit).toBe(9);
    expect(running.out()).toBe('ready\ngot\n');
    await nothingLeft('/srv/launched');
  });

  test('one that is killed takes the command along, and leaves nothing', async () => {
    const running = start(about('/srv/launched'), 'echo "$$ $DOCKER_CONFIG"; exec sleep 60', env, old);
    await said(running, '\n');
    const [pid, dir = ''] = running.out().trim().split(' ');
    expect(existsSync(dir)).toBe(true);
    running.child.kill('SIGKILL');
    await waitFor('the command to end', () => !existsSync(`/proc/${pid}`));
    await waitFor('the folder to be wiped', () => folders().length === 0 && !existsSync(dir));
    await waitFor('the lease to end', async () => (await leases('/srv/launched')).length === 0);
  });
});

describe('a lease that goes on', () => {
  test('is renewed before it ends; what is no longer granted leaves the folder, the rest stays', async () => {
    await granted('/srv/renew', '8s');
    const running = start(
      about('/srv/renew'),
      'echo "$DOCKER_CONFIG"; while test -e "$DOCKER_CONFIG/config.json"; do sleep 0.1; done; test -e "$DOCKER_CONFIG/env" && echo "still $VALUE"',
    );
    expect(await running.exit).toBe(0);
    expect(running.out()).toContain(`still ${VALUE}`);
    const { records: renewals } = await ok('audit', 'list', '--action', 'secret.renew');
    expect(renewals.some((one: { projectId: string }) => one.projectId === '/srv/renew')).toBe(true);
    await nothingLeft('/srv/renew');
  });

  test('outlives a kill -9 of the server: the renewal is tried again until it is back', async () => {
    await granted('/srv/restart', '1h');
    const running = start(
      [...about('/srv/restart'), '--ttl', '14s'],
      'echo "$DOCKER_CONFIG"; until test -e stop; do sleep 0.1; done; cat "$DOCKER_CONFIG/env"',
    );
    await said(running, '\n');
    await server.kill('SIGKILL');
    await waitFor('a renewal that fails', () => running.err().includes('tried again'), 30_000);
    server = await serve(config, env);
    await waitFor(
      'a renewal after the restart',
      async () =>
        (await ok('audit', 'list', '--action', 'secret.renew')).records.some(
          (one: { projectId: string }) => one.projectId === '/srv/restart',
        ),
      30_000,
    );
    running.child.kill('SIGTERM');
    expect(await running.exit).toBe(143);
    await nothingLeft('/srv/restart');
  });

  test('that is revoked ends the command only where that is asked for', async () => {
    const grants = await granted('/srv/revoke', '1h');
    const script = 'echo "$DOCKER_CONFIG"; exec sleep 60';
    const goesOn = start(about('/srv/revoke'), script);
    const stops = start([...about('/srv/revoke'), '--stop-on-revoke'], script);
    await said(goesOn, '\n');
    await said(stops, '\n');
    expect(await leases('/srv/revoke')).toHaveLength(2);
    await ok('grant', 'revoke', grants.registry ?? '');
    expect(await stops.exit).toBe(143);
    expect(stops.err()).toContain('the lease is over');
    expect(existsSync(stops.out().trim())).toBe(false);
    expect(goesOn.child.exitCode).toBe(null);
    goesOn.child.kill('SIGTERM');
    await goesOn.exit;

    const released = start([...about('/srv/revoke'), '--stop-on-revoke'], 'echo here; exec sleep 60');
    await said(released, 'here');
    for (const { leaseId } of await leases('/srv/revoke')) await ok('lease', 'release', leaseId);
    expect(await released.exit).toBe(143);
    await nothingLeft('/srv/revoke');
  });
});

describe('after a kill -9', () => {
  /** Kills `postern run` and then what it ran, which nobody tells. */
  async function killed(project: string): Promise<string> {
    const running = start([...about(project), '--ttl', '6s'], 'echo "$$ $DOCKER_CONFIG"; exec sleep 60');
    await said(running, '\n');
    const [pid, dir = ''] = running.out().trim().split(' ');
    running.child.kill('SIGKILL');
    await running.exit;
    process.kill(Number(pid), 'SIGKILL');
    expect(readFileSync(join(dir, 'env'), 'utf8')).toContain(VALUE);
    expect(folders()).toHaveLength(1);
    return dir;
  }
  beforeAll(() => granted('/srv/killed', '1h'));

  test('the next run wipes the folder, and the lease ends because nobody renews it', async () => {
    const dir = await killed('/srv/killed');
    expect(await leases('/srv/killed')).toHaveLength(1);
    expect(await once('/srv/other', 'true')).toMatchObject({ code: 0 });
    expect(existsSync(dir)).toBe(false);
    await waitFor('the lease to end', async () => (await leases('/srv/killed')).length === 0, 30_000);
    await waitFor(
      'the sweep',
      async () =>
        (await ok('audit', 'list', '--action', 'secret.lease_expire')).records.some(
          (one: { projectId: string }) => one.projectId === '/srv/killed',
        ),
      30_000,
    );
    await nothingLeft('/srv/killed');
  });

  test('of the server too: the next start wipes the folder and ends the lease', async () => {
    const dir = await killed('/srv/killed');
    await server.kill('SIGKILL');
    server = await serve(config, env);
    await waitFor('the folder to be wiped', () => !existsSync(dir));
    await waitFor('the log to say so', () => server.output().includes('were wiped'));
    await waitFor('the lease to end', async () => (await leases('/srv/killed')).length === 0, 30_000);
    expect(await postern('audit', 'verify')).toMatchObject({ code: 0 });
    await nothingLeft('/srv/killed');
  });
});
