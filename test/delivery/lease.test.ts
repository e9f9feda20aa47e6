import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { DirectMaterial, GrantRef, Lease, Material } from '../../broker/material.ts';
import { Credential } from '../../common/credential.ts';
import { deliverLease } from '../../delivery/lease.ts';
import { answeredFiles, leaseAnswer, sandboxLeaseDir } from '../../delivery/lease-answer.ts';

const DIR = '/run/postern/postern-lease-1';

const ref = (grantId: string, more: Partial<GrantRef> = {}): GrantRef => ({
  grantId,
  secretId: `sec-${grantId}`,
  secretName: `name-${grantId}`,
  kind: 'env',
  ...more,
});

function direct(grantId: string, more: Partial<DirectMaterial>): DirectMaterial {
  return {
    type: 'direct',
    grants: [ref(grantId)],
    env: {},
    files: [],
    mounts: [],
    devices: [],
    summary: 's',
    ...more,
  };
}

function gitSession(issued: boolean): Material {
  const facts = {
    baseUrl: 'https://guard.example:8443',
    readOnly: false,
    upstreams: ['https://github.com'],
    repos: ['acme/app'],
    pushRefs: ['refs/heads/agent/**'],
  };
  return {
    type: 'session',
    guard: 'git',
    grants: [ref('g1', { kind: 'github_pat' }), ref('g2', { kind: 'github_app' })],
    sessionId: 'ses_1',
    expiresAt: 2000,
    summary: 'read-write, acme/app',
    facts,
    ...(issued && {
      issued: {
        ...facts,
        sessionId: 'ses_1',
        username: 'ses_1',
        password: new Credential('session-token-canary'),
        expiresAt: 2000,
        summary: '',
      },
    }),
  };
}

const lease = (...materials: Material[]): Lease => ({
  id: 'lease_1',
  projectId: '/srv/app',
  issuedAt: 0,
  expiresAt: 1000,
  materials,
  denied: [],
  revoked: [],
});

describe('a delivery', () => {
  it('has variables, files, mounts and devices, and points at its own place', () => {
    const delivery = deliverLease(
      lease(
        direct('v', { env: { TOKEN: new Credential('canary'), HOSTS: 'a,b' } }),
        direct('r', {
          files: [
            {
              name: 'config.json',
              content: new Credential('{"auths":{}}'),
              variable: { name: 'DOCKER_CONFIG', pointsAt: 'folder' },
            },
          ],
        }),
        direct('m', {
          mounts: [{ name: 'app', source: '/srv/git/app', target: '/repos/app', readOnly: true }],
          devices: [{ name: 'gpu', source: '/dev/g', target: '/dev/g', permissions: 'rw' }],
        }),
        gitSession(true),
      ),
      { dir: DIR, ca: 'CA' },
    );
    expect(Object.keys(delivery.files).sort()).toEqual([
      'ca.pem',
      'config.json',
      'env',
      'git-credential',
      'gitconfig',
    ]);
    expect(delivery.env).toMatchObject({
      DOCKER_CONFIG: DIR,
      HOSTS: 'a,b',
      GIT_CONFIG_GLOBAL: `${DIR}/gitconfig`,
      POSTERN_GIT_MODE: 'read-write',
    });
    expect(delivery.sensitiveEnv).toEqual(['TOKEN']);
    expect(delivery.mounts).toHaveLength(1);
    expect(delivery.devices).toHaveLength(1);
    expect(delivery.files.env?.reveal()).toContain("export TOKEN='canary'");
    expect(delivery.files.gitconfig?.reveal()).not.toContain('session-token-canary');
  });

  it('says which grant gave what, by name and never by value', () => {
    const delivery = deliverLease(
      lease(direct('v', { env: { TOKEN: new Credential('canary') } }), gitSession(true)),
      { dir: DIR, ca: 'CA' },
    );
    expect(delivery.bindings).toMatchObject([
      { grantId: 'v', secretName: 'name-v', env: ['TOKEN'], files: [], shared: false },
      {
        grantId: 'g1',
        kind: 'github_pat',
        sessionId: 'ses_1',
        shared: true,
        files: [`${DIR}/gitconfig`, `${DIR}/git-credential`, `${DIR}/ca.pem`],
      },
      { grantId: 'g2', kind: 'github_app', shared: true },
    ]);
    expect(JSON.stringify(delivery.bindings)).not.toContain('canary');
  });

  it('prints redacted', () => {
    const delivery = deliverLease(
      lease(direct('v', { env: { TOKEN: new Credential('canary') } }), gitSession(true)),
      { dir: DIR, ca: 'CA' },
    );
    expect(inspect(delivery, { depth: 9 })).not.toContain('canary');
    expect(JSON.stringify(delivery)).not.toContain('canary');
  });

  it('of a renewal keeps the files of a session that stays, and says its variables again', () => {
    const delivery = deliverLease(lease(gitSession(false)), { dir: DIR });
    expect(Object.keys(delivery.files)).toEqual(['env']);
    expect(delivery.keep).toEqual(['gitconfig', 'git-credential', 'ca.pem']);
    expect(delivery.env.POSTERN_GIT_SESSION).toBe('ses_1');
  });

  it('of an empty lease is nothing but an empty environment', () => {
    const delivery = deliverLease(lease(), { dir: DIR });
    expect(delivery).toMatchObject({ env: {}, keep: [], bindings: [] });
    expect(Object.keys(delivery.files)).toEqual(['env']);
  });

  it('refuses two materials that write one file', () => {
    const file = { name: 'gitconfig', content: new Credential('x') };
    expect(() =>
      deliverLease(lease(direct('x', { files: [file] }), gitSession(true)), { dir: DIR, ca: 'CA' }),
    ).toThrow(expect.objectContaining({ code: 'invalid_input' }));
    expect(() => deliverLease(lease(gitSession(true)), { dir: DIR })).toThrow(TypeError);
  });

  it('is revealed in the answer, with RFC 3339 times, and read back to credentials', () => {
    const made = lease(direct('v', { env: { TOKEN: new Credential('canary') } }), gitSession(true));
    const answer = leaseAnswer(made, deliverLease(made, { dir: sandboxLeaseDir('lease_1'), ca: 'CA' }));
    expect(answer).toMatchObject({
      leaseId: 'lease_1',
      dir: '/run/postern/postern-lease-lease_1',
      expiresAt: '1970-01-01T00:00:01.000Z',
      env: { TOKEN: 'canary' },
      sessions: [{ guard: 'git', sessionId: 'ses_1', grants: ['g1', 'g2'] }],
    });
    const files = answeredFiles(JSON.parse(JSON.stringify(answer)));
    expect(files['git-credential']?.reveal()).toContain('session-token-canary');
    expect(JSON.stringify(files)).not.toContain('canary');
  });
});
