// A throw-away authority and a serving certificate for loopback, as the rooms under test get them from certs/. Made by
// openssl, so that the tests trust another implementation's certificates too.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TlsSource } from '../../relay/listener.ts';

export interface TestCertificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** `ca` on disk, for clients that want a file. */
  readonly caFile: string;
}

export function testCertificates(names = 'DNS:localhost,IP:127.0.0.1'): TestCertificates {
  const folder = mkdtempSync(join(tmpdir(), 'postern-test-certs-'));
  const at = (name: string): string => join(folder, name);
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  };
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc'];
  const caOut = ['-keyout', at('ca.key'), '-out', at('ca.pem'), '-days', '2', '-subj', '/CN=Test authority'];
  openssl('req', '-x509', ...curve, ...caOut);
  openssl('req', ...curve, '-keyout', at('key.pem'), '-out', at('csr.pem'), '-subj', '/CN=Test guard');
  writeFileSync(at('ext'), `subjectAltName=${names}\n`);
  const signed = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-days', '2', '-extfile', at('ext')];
  openssl('x509', '-req', '-in', at('csr.pem'), ...signed, '-out', at('cert.pem'));
  const read = (name: string): string => readFileSync(at(name), 'utf8');
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem'), caFile: at('ca.pem') };
}

/** As a listener takes it. */
export function tlsOf({ cert, key }: TestCertificates): TlsSource {
  return { contextOptions: () => ({ cert, key }), attach: () => () => {} };
}
