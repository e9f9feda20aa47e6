import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../cli/config.ts';
import { configFileProblems } from '../../cli/config-files.ts';
import { testCertificates } from '../support/certificates.ts';

let cwd: string;
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'postern-config-files-'));
});
afterAll(() => rmSync(cwd, { recursive: true }));

function problems(yaml: string) {
  const file = join(cwd, 'postern.yaml');
  writeFileSync(file, yaml);
  return configFileProblems(loadConfig({ file, env: {}, cwd }));
}
const put = (name: string, text: string, mode = 0o600): string => {
  writeFileSync(join(cwd, name), text);
  chmodSync(join(cwd, name), mode);
  return name;
};

describe('files that the configuration names', () => {
  it('that can be used are no problem', async () => {
    const { cert, key, ca } = testCertificates();
    put('cert.pem', cert);
    put('key.pem', key);
    put('ca.pem', ca);
    put('plugin', '#!/bin/sh\n', 0o755);
    put('secret', 'a passphrase\n');
    const tls = 'tls: { certFile: cert.pem, keyFile: key.pem, caFile: ca.pem }';
    expect(
      await problems(`
secretKey: { file: secret }
git: { advertise: "https://127.0.0.1:8443", upstreams: [ { url: https://a.example, caFile: ca.pem } ], ${tls} }
kube: { execPlugins: ["${join(cwd, 'plugin')}"], tokenFiles: ["${join(cwd, 'secret')}"], ${tls} }
control: { listen: 127.0.0.1:0, ${tls} }
`),
    ).toEqual([]);
  });

  it('that cannot are all named, with the key and the file', async () => {
    put('empty', '');
    put('writable', '#!/bin/sh\n', 0o777);
    const found = await problems(`
secretKey: { file: empty }
git:
  advertise: https://guard.example.com
  upstreams: [ { url: https://a.example, caFile: none.pem }, { url: https://b.example, caFile: empty } ]
  tls: { certFile: cert.pem, keyFile: key.pem, caFile: ca.pem }
kube:
  execPlugins: [/nowhere/plugin, "${join(cwd, 'secret')}", "${join(cwd, 'writable')}"]
  tokenFiles: [/nowhere/token]
  tls: { certFile: cert.pem, keyFile: none.pem }
`);
    expect(found.map(({ key, message }) => `${key}: ${message.replaceAll(cwd, '')}`)).toEqual([
      'secretKey: file /empty is empty; put the value there',
      'git.upstreams[0].caFile: /none.pem does not exist',
      'git.upstreams[1].caFile: /empty holds no certificate that can be read',
      expect.stringMatching(/^git\.tls\.certFile: \/cert\.pem does not name guard\.example\.com/),
      'kube.tls.keyFile: /none.pem does not exist',
      'kube.execPlugins[0]: /nowhere/plugin does not exist',
      'kube.execPlugins[1]: /secret cannot be used by this user',
      'kube.execPlugins[2]: /writable can be written by others than its owner; chmod go-w',
      'kube.tokenFiles[0]: /nowhere/token does not exist',
    ]);
  });

  it('of a guard that is off are not asked for', async () => {
    const off = 'enabled: false, tls: { certFile: none, keyFile: none }';
    expect(
      await problems(`git: { ${off} }\nkube: { ${off}, execPlugins: [/none], tokenFiles: [/none] }`),
    ).toEqual([]);
  });
});
