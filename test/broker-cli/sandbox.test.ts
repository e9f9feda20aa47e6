// One sandbox, one lease: real git and kubectl with everything that a project was granted at once, through `postern run`
// and through the API as a hub uses it. What is not granted is refused, and neither the forge nor a cluster hears of it.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { LeaseDelivery } from '../../control/lease-schemas.ts';
import { launcher, run } from '../system/harness.ts';
import { startShell } from './shell.ts';
import { type BrokerSite, ENV, fill, LOGIN, openBrokerSite, PROJECT } from './site.ts';

type Exec = (line: string) => Promise<{ readonly code: number; readonly out: string }>;

let site: BrokerSite;
let grants: { [what: string]: string };
let home: string;

beforeAll(async () => {
  site = await openBrokerSite('broker');
});
afterAll(() => site.close());
beforeEach(async () => {
  for (const { secretId } of JSON.parse((await site.postern('secret', 'list', '--json')).out).secrets)
    await site.postern('secret', 'delete', secretId);
  grants = await fill(site);
  home = join(site.folder, `home-${Math.random().toString(16).slice(2)}`);
  mkdirSync(home);
  writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = agent\n\temail = agent@localhost\n');
});

const base = () => ({ PATH: process.env.PATH, LC_ALL: 'C', GIT_TERMINAL_PROMPT: '0', HOME: home });
const seenByForge = (path: string): number =>
  site.forge.requests.filter(({ url }) => url.toLowerCase().includes(path)).length;
const writes = (): number =>
  [site.clusters.prod, site.clusters.stage]
    .flatMap(({ requests }) => requests)
    .filter(({ method, target }) => method !== 'GET' || /secrets|team-b|exec/.test(target)).length;

async function everythingAsGranted(exec: Exec, branch: string): Promise<void> {
  const url = (repo: string): string => `${site.forge.url}/acme/${repo}.git`;
  const ok = async (line: string) => {
    const ran = await exec(line);
    expect(ran.code, `${line}: ${ran.out}`).toBe(0);
    return ran.out;
  };
  const refused = async (line: string, word: RegExp) => {
    const ran = await exec(line);
    expect(ran.code, line).not.toBe(0);
    expect(ran.out, line).toMatch(word);
  };
  // git: read on the library, write on the application, to the branches that are listed.
  await ok(`cd ${home} && git clone -q ${url('lib')} && git clone -q ${url('app')}`);
  await ok(`cd ${home}/app && echo change > change && git add . && git commit -qm change`);
  await ok(`cd ${home}/app && git push -q origin HEAD:refs/heads/agent/${branch}`);
  await refused(`cd ${home}/app && git push -q origin HEAD:refs/heads/main`, /refs\/heads\/agent/);
  await refused(
    `cd ${home}/lib && echo x > x && git add . && git commit -qm x && git push -q origin HEAD:refs/heads/agent/${branch}`,
    /may read acme\/lib but not push/,
  );
  await refused(`git ls-remote ${url('other')}`, /acme\/other|not allowed/i);
  expect(seenByForge('acme/other')).toBe(0);
  expect(
    site.forge.requests.filter(
      ({ url: asked }) => asked.includes('acme/lib') && asked.includes('receive-pack'),
    ),
  ).toEqual([]);
  const refs = await run('git', ['for-each-ref', '--format=%(refname)'], {
    cwd: join(site.forge.root, 'acme/app.git'),
  });
  expect(refs.out.replaceAll(/refs\/heads\/agent\/\w+\n/g, '')).toBe('refs/heads/main\n');
  expect(refs.out).toContain(`refs/heads/agent/${branch}\n`);
  // Kubernetes: reading, in two clusters, one namespace.
  for (const name of ['prod', 'stage']) {
    expect(await ok(`kubectl --context ${name} -n team-a get pods -o name`)).toBe(`pod/web-${name}\n`);
    await refused(`kubectl --context ${name} -n team-a delete pod web-${name}`, /Forbidden/);
    await refused(`kubectl --context ${name} -n team-b get pods`, /Forbidden/);
    await refused(`kubectl --context ${name} -n team-a get secrets`, /Forbidden/);
  }
  expect(writes()).toBe(0);
  // A registry of two, two variables of three.
  expect(JSON.parse(await ok('cat "$DOCKER_CONFIG/config.json"'))).toEqual({
    auths: { 'registry.example.com': { auth: LOGIN } },
  });
  expect(await ok('echo "$DEPLOY_KEY/$API_KEY/$OTHER_KEY"')).toBe(`${ENV.DEPLOY_KEY}/${ENV.API_KEY}/\n`);
  // What the guards hold is in none of it.
  const all = await ok('env; cat "$(dirname "$GIT_CONFIG_GLOBAL")"/*');
  expect(all).not.toContain(site.token);
  expect(all).not.toContain(site.clusters.prod.url);
}

async function oneRevokedTheOthersGoOn(exec: Exec): Promise<void> {
  expect((await site.postern('grant', 'revoke', grants.write ?? '')).code).toBe(0);
  site.forge.requests.length = 0;
  const app = await exec(`git ls-remote ${site.forge.url}/acme/app.git`);
  expect(app.code).not.toBe(0);
  expect(site.forge.requests).toEqual([]);
  expect(await exec(`git ls-remote -q ${site.forge.url}/acme/lib.git`)).toMatchObject({ code: 0 });
  expect(await exec('kubectl --context prod -n team-a get pods')).toMatchObject({ code: 0 });
  expect((await site.postern('grant', 'revoke', grants.kube ?? '')).code).toBe(0);
  const seen = site.clusters.prod.requests.length;
  expect((await exec('kubectl --context prod -n team-a get pods')).code).not.toBe(0);
  expect(site.clusters.prod.requests.length).toBe(seen);
  expect(await exec(`git ls-remote -q ${site.forge.url}/acme/lib.git`)).toMatchObject({ code: 0 });
}

describe('a sandbox with one lease', () => {
  test('through postern run: as granted, revoked one by one, over and wiped at its end', async () => {
    const state = join(site.folder, 'state');
    const authority = join(site.folder, 'company.pem');
    writeFileSync(authority, site.clusters.prod.ca);
    const shell = startShell(['--project', PROJECT, '--executor', 'edge-01', '--config', site.config], {
      ...base(),
      XDG_STATE_HOME: state,
      // Of a company of its own, which git would trust for every host, and then not the guard.
      GIT_SSL_CAINFO: authority,
    });
    await everythingAsGranted(shell.exec, 'run');
    const dir = (await shell.exec('dirname "$GIT_CONFIG_GLOBAL"')).out.trim();
    expect(readdirSync(dir).sort()).toEqual(
      ['ca.pem', 'config.json', 'env', 'git-credential', 'gitconfig', 'kubeconfig'].sort(),
    );
    const kept = Object.fromEntries(
      readdirSync(dir).map((name) => [name, readFileSync(join(dir, name), 'utf8')]),
    );
    await oneRevokedTheOthersGoOn(shell.exec);
    expect(await shell.close()).toBe(0);
    expect(shell.err()).toBe('');
    expect(existsSync(dir)).toBe(false);
    expect(readdirSync(join(state, 'postern/lease-folders'))).toEqual([]);
    expect(JSON.parse((await site.postern('lease', 'list', '--json')).out).leases).toEqual([]);
    // Whoever kept a copy has nothing.
    const copy = join(site.folder, 'copy');
    mkdirSync(copy);
    for (const [name, text] of Object.entries(kept))
      writeFileSync(join(copy, name), text.replaceAll(dir, copy));
    const again = await run('sh', ['-c', `. ${copy}/env && git ls-remote ${site.forge.url}/acme/lib.git`], {
      env: base(),
    });
    expect(again.code).not.toBe(0);
  }, 120_000);

  test('through the API: a hub gets bytes, renews with the token unchanged, and releases', async () => {
    const hub = await site.as('hub-1');
    const dir = join(site.folder, 'sandbox');
    mkdirSync(dir, { mode: 0o700 });
    const lease = await hub.call<LeaseDelivery>('POST', '/v1/leases', {
      projectId: `${PROJECT}/`,
      executorId: 'edge-01',
      runId: 'run-7',
      dir,
    });
    expect(lease).toMatchObject({
      empty: false,
      projectId: PROJECT,
      denied: [],
      sensitiveEnv: ['DEPLOY_KEY', 'API_KEY'],
    });
    expect(JSON.stringify(lease)).not.toContain(site.token);
    expect(JSON.stringify(lease.bindings)).not.toContain(ENV.API_KEY);
    expect(lease.bindings.map(({ grantId }) => grantId).sort()).toEqual(Object.values(grants).sort());
    const write = ({ files }: LeaseDelivery): void => {
      for (const { name, content } of files) writeFileSync(join(dir, name), content, { mode: 0o600 });
    };
    write(lease);
    const exec: Exec = async (line) => {
      const ran = await run('sh', ['-c', `( ${line} ) 2>&1`], { env: { ...base(), ...lease.env } });
      return { code: ran.code, out: ran.out };
    };
    await everythingAsGranted(exec, 'api');
    const token = readFileSync(join(dir, 'git-credential'), 'utf8');
    const renewed = await hub.call<LeaseDelivery>('POST', `/v1/leases/${lease.leaseId}/renew`, { dir });
    expect(renewed.files.map(({ name }) => name)).not.toContain('git-credential');
    expect([...renewed.keep].sort()).toEqual(['ca.pem', 'git-credential', 'gitconfig', 'kubeconfig']);
    write(renewed);
    expect(readFileSync(join(dir, 'git-credential'), 'utf8')).toBe(token);
    await oneRevokedTheOthersGoOn(exec);

    const metrics = await (await fetch(`http://${site.server.ready.ops}/metrics`)).text();
    expect(metrics).toContain('postern_leases_live{kind="registry"} 1');
    const released = await hub.call('DELETE', `/v1/leases/${lease.leaseId}`);
    expect(released).toEqual({ leaseId: lease.leaseId, released: true });
    expect(await hub.call('DELETE', `/v1/leases/${lease.leaseId}`)).toMatchObject({ released: false });
    expect((await exec(`git ls-remote ${site.forge.url}/acme/lib.git`)).code).not.toBe(0);
    const { sessions } = await hub.sessions({ leaseId: lease.leaseId });
    expect(sessions.map(({ state }) => state)).toEqual(['revoked', 'revoked']);
    const audit = (await site.postern('audit', 'export', '--lease', lease.leaseId)).out;
    for (const action of ['secret.lease', 'secret.renew', 'secret.release', 'git.session_closed'])
      expect(audit).toContain(`"${action}"`);
    expect(audit).toContain('"actor":"hub-1"');
  }, 120_000);

  test('a project that was granted nothing has an empty lease, and runs without access', async () => {
    const hub = await site.as('hub-1');
    const lease = await hub.call<LeaseDelivery>('POST', '/v1/leases', { projectId: `${PROJECT}-staging` });
    expect(lease).toMatchObject({ empty: true, env: {}, bindings: [], mounts: [], devices: [] });
    const about = ['--project', `${PROJECT}-staging`, '--config', site.config];
    const ran = await run(process.execPath, [
      launcher,
      'run',
      ...about,
      '--',
      'sh',
      '-c',
      'echo "<$API_KEY>"',
    ]);
    expect(ran).toMatchObject({ code: 0, out: '<>\n' });
    expect(ran.err).toContain('no access');
  });
});
