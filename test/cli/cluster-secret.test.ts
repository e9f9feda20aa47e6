import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clusterSecrets, type ReadSecret } from '../../cli/cluster-secret.ts';
import { resolveValueFrom } from '../../common/value-from.ts';
import { testCertificates } from '../support/certificates.ts';

const certificates = testCertificates();
const asked: string[] = [];
const server = createServer({ cert: certificates.cert, key: certificates.key }, (request, response) => {
  asked.push(`${request.headers.authorization} ${request.url}`);
  if (request.url?.endsWith('/postern-key'))
    response.end(
      JSON.stringify({ data: { passphrase: Buffer.from('the passphrase\n').toString('base64') } }),
    );
  else if (request.url?.endsWith('/forbidden')) response.writeHead(403).end('{"message":"no"}');
  else response.writeHead(404).end('{}');
});
let read: ReadSecret;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const folder = mkdtempSync(join(tmpdir(), 'postern-account-'));
  writeFileSync(join(folder, 'token'), 'account-token\n');
  writeFileSync(join(folder, 'ca.crt'), certificates.ca);
  writeFileSync(join(folder, 'namespace'), 'hub');
  const { port } = server.address() as AddressInfo;
  const env = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(port) };
  read = clusterSecrets(env, folder) as ReadSecret;
});
afterAll(() => server.close());

const value = (name: string, key: string) =>
  resolveValueFrom({ secretKeyRef: { name, key } }, { key: 'secretKey', readSecret: read });

test('a key of a Secret is read with the service account, from its own namespace', async () => {
  expect((await value('postern-key', 'passphrase')).reveal()).toBe('the passphrase');
  expect(asked).toEqual(['Bearer account-token /api/v1/namespaces/hub/secrets/postern-key']);
});

test('what is not there, or not allowed, is an error that names the reference', async () => {
  await expect(value('postern-key', 'other')).rejects.toThrow('Secret postern-key, key other does not exist');
  await expect(value('missing', 'a')).rejects.toThrow('Secret missing, key a does not exist');
  await expect(value('forbidden', 'a')).rejects.toThrow('cannot be read');
});

test('outside a cluster there is no reader', () => {
  expect(clusterSecrets({})).toBeUndefined();
});
