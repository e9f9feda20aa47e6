// The cluster's certificate authorities: one for its serving certificate, one for client certificates, as kubeadm has
// them; and what they sign.

import './reflect.ts';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';

export interface KeyPair {
  cert: string;
  key: string;
}

export interface Authority {
  readonly ca: string;
  serving(names: readonly string[]): Promise<KeyPair>;
  /** CN becomes the user's name, each O a group. `notAfter` lets a test make an expired one. */
  client(user: string, groups: readonly string[], notAfter?: Date): Promise<KeyPair>;
}

const EC = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY = 86_400_000;

async function newKeys(): Promise<{ publicKey: CryptoKey; privateKey: CryptoKey }> {
  return crypto.subtle.generateKey(EC, true, ['sign', 'verify']);
}

async function keyPem(key: CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');
}

function serial(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(12))).toString('hex');
}

export async function createAuthority(name: string): Promise<Authority> {
  const keys = await newKeys();
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: [{ CN: [name] }],
    notBefore: new Date(Date.now() - DAY),
    notAfter: new Date(Date.now() + 30 * DAY),
    keys,
    signingAlgorithm: EC,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const sign = async (
    subject: x509.JsonName,
    usage: x509.ExtendedKeyUsage,
    extensions: x509.Extension[],
    notAfter = new Date(Date.now() + 30 * DAY),
  ): Promise<KeyPair> => {
    const own = await newKeys();
    const cert = await x509.X509CertificateGenerator.create({
      serialNumber: serial(),
      issuer: ca.subject,
      subject,
      notBefore: new Date(Date.now() - 2 * DAY),
      notAfter,
      publicKey: own.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: EC,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([usage]),
        await x509.AuthorityKeyIdentifierExtension.create(ca),
        ...extensions,
      ],
    });
    return { cert: cert.toString('pem'), key: await keyPem(own.privateKey) };
  };
  return {
    ca: ca.toString('pem'),
    serving: (names) =>
      sign([{ CN: ['kube-apiserver'] }], x509.ExtendedKeyUsage.serverAuth, [
        new x509.SubjectAlternativeNameExtension(
          names.map((value) => ({ type: isIP(value) ? ('ip' as const) : ('dns' as const), value })),
        ),
      ]),
    client: (user, groups, notAfter) =>
      sign(
        [...groups.map((group) => ({ O: [group] })), { CN: [user] }],
        x509.ExtendedKeyUsage.clientAuth,
        [],
        notAfter,
      ),
  };
}
