import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../cli/config.ts';
import { OTHER_VARIABLES } from '../../cli/config-env.ts';
import { configLeaves } from '../../cli/config-reference.ts';

const cwd = '/srv/nowhere';
const load = (env: { [name: string]: string }) => loadConfig({ env, cwd });

describe('POSTERN_ variables', () => {
  it('override scalars of every type', () => {
    const config = load({
      POSTERN_DATA_DIR: './data',
      POSTERN_GIT_LISTEN: '[::1]:0',
      POSTERN_GIT_PUSH_ALLOW_DELETE: 'false',
      POSTERN_KUBE_ENABLED: 'false',
      POSTERN_KUBE_MAX_BODY_BYTES: '1024',
      POSTERN_CONTROL_LISTEN: '127.0.0.1:9000',
      POSTERN_SESSIONS_MAX_TTL: '1d',
      POSTERN_AUDIT_ON_FAILURE: 'continue',
      POSTERN_GIT_TLS_CERT_FILE: 'a.pem',
      POSTERN_GIT_TLS_KEY_FILE: 'b.pem',
      POSTERN_SECRET_KEY_FILE: '/run/secrets/key',
    });
    expect(config.dataDir).toBe(join(cwd, 'data'));
    expect(config.git.listen).toEqual({ host: '::1', port: 0 });
    expect(config.git.push.allowDelete).toBe(false);
    expect(config.git.tls).toEqual({
      certFile: join(cwd, 'a.pem'),
      keyFile: join(cwd, 'b.pem'),
      caFile: undefined,
    });
    expect(config.kube).toMatchObject({ enabled: false, maxBodyBytes: 1024 });
    expect(config.control.listen).toEqual({ host: '127.0.0.1', port: 9000 });
    expect(config.sessions.maxTtl).toBe(86_400_000);
    expect(config.audit.onFailure).toBe('continue');
    expect(config.secretKey).toEqual({ file: '/run/secrets/key' });
  });

  it('may leave out the underscores inside a key', () => {
    const config = load({ POSTERN_SESSIONS_MAXTTL: '1d', POSTERN_GIT_PUSH_MAXREFS: '3' });
    expect(config.sessions.maxTtl).toBe(86_400_000);
    expect(config.git.push.maxRefs).toBe(3);
    expect(config.warnings).toEqual([]);
  });

  it('are checked like keys, and the refusal names the variable', () => {
    expect(() => load({ POSTERN_GIT_LISTEN: '8443' })).toThrow(
      /POSTERN_GIT_LISTEN \(git\.listen\): is "8443"; it must/,
    );
    expect(() => load({ POSTERN_KUBE_MAX_BODY_BYTES: '1e3' })).toThrow(/POSTERN_KUBE_MAX_BODY_BYTES/);
    expect(() => load({ POSTERN_GIT_ENABLED: 'no' })).toThrow(/POSTERN_GIT_ENABLED/);
    expect(() => load({ POSTERN_GIT_ENABLED: '' })).toThrow(/POSTERN_GIT_ENABLED/);
    expect(() => load({ POSTERN_DATA_DIR: '' })).toThrow(/POSTERN_DATA_DIR/);
  });

  it('choose one store instead of another, but not two', () => {
    expect(load({ POSTERN_STORE_SQLITE: '/x.db' }).store).toEqual({ sqlite: '/x.db' });
    const both = { POSTERN_STORE_SQLITE: '/x.db', POSTERN_STORE_POSTGRES: 'postgres://u:p@db/x' };
    expect(() => load(both)).toThrow(/store/);
    const { store } = load({ POSTERN_STORE_POSTGRES: 'postgres://u:p@db/x' });
    expect('postgres' in store && store.postgres.reveal()).toBe('postgres://u:p@db/x');
    expect(JSON.stringify(store)).not.toContain('u:p');
  });

  it('POSTERN_SECRET_KEY is the passphrase, not an override; set but empty still counts as given', () => {
    expect(load({ POSTERN_SECRET_KEY: 'x' }).secretKey).toEqual({ env: 'POSTERN_SECRET_KEY' });
    expect(load({ POSTERN_SECRET_KEY: '' }).secretKey).toEqual({ env: 'POSTERN_SECRET_KEY' });
    expect(load({}).secretKey).toBeUndefined();
  });

  it("leave the workload's and the commands' variables alone", () => {
    const env = Object.fromEntries(OTHER_VARIABLES.map((name) => [name, 'anything at all']));
    const config = load({
      ...env,
      POSTERN_TEST_KUBECONFIG: 'x',
      POSTERN_SERVICE_HOST: '10.0.0.1',
      POSTERN_PORT_8443_TCP_ADDR: '10.0.0.1',
      POSTERN_GIT_PORT: 'tcp://10.0.0.1:8443',
      POSTERN_GIT_SERVICE_PORT_HTTPS: '8443',
    });
    expect(config.warnings).toEqual([]);
    expect(config.git.push.refs).toEqual(['refs/heads/**']);
  });

  it('that override nothing are a warning, with the name that was probably meant', () => {
    expect(load({ POSTERN_GIT_LISTN: 'x', POSTERN_ZEBRA: 'y', POSTERN_GIT_UPSTREAMS: 'z' }).warnings).toEqual(
      [
        {
          key: 'POSTERN_GIT_LISTN',
          message: 'overrides nothing and is not read; did you mean POSTERN_GIT_LISTEN?',
        },
        { key: 'POSTERN_GIT_UPSTREAMS', message: 'overrides nothing and is not read' },
        { key: 'POSTERN_ZEBRA', message: 'overrides nothing and is not read' },
      ],
    );
  });

  it('exist for every scalar, and none is a name of something else', () => {
    const names = configLeaves().flatMap((leaf) => leaf.env ?? []);
    expect(new Set(names).size).toBe(names.length);
    expect(
      names.filter((name) => OTHER_VARIABLES.includes(name) || name.startsWith('POSTERN_TEST_')),
    ).toEqual([]);
    expect(names).toContain('POSTERN_KUBE_MAX_BODY_BYTES');
    expect(names).toContain('POSTERN_SESSIONS_MAX_TTL');
  });
});
