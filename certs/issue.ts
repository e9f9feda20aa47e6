// Makes certificates: the authority's own and those that it signs. No state, no clock, no store; RFC 5280 profiles,
// ECDSA P-256 with SHA-256 throughout.

import './reflect.ts';
import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';

const EC = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY = 86_400_000;

/** The authority outlives every machine that it serves; replacing it is a decision, not an event. */
export const AUTHORITY_LIFE = 3650 * DAY;
export const SERVING_LIFE = 90 * DAY;
/** A sandbox whose clock is a little slow must not find the certificate not yet valid. */
export const BACKDATE = 5 * 60_000;

export interface Authority {
  readonly certificate: x509.X509Certificate;
  /** Not extractable. */
  readonly key: CryptoKey;
}

export interface KeyPair {
  /** PEM. */
  readonly cert: string;
  /** PEM, PKCS #8. */
  readonly key: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** `key` is PKCS #8; the caller zeroes it. */
export async function createAuthority(now: number): Promise<{ pem: string; key: Buffer }> {
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    // Two authorities must never share a name: clients find the issuer by it.
    name: [{ CN: [`Postern authority ${randomBytes(4).toString('hex')}`] }],
    notBefore: seconds(now - BACKDATE),
    notAfter: seconds(now + AUTHORITY_LIFE),
    keys,
    signingAlgorithm: EC,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { pem: pem(certificate), key: Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)) };
}

/** `key` is PKCS #8; the caller zeroes it. */
export async function readAuthority(
  certificatePem: string,
  key: Uint8Array<ArrayBuffer>,
): Promise<Authority> {
  return {
    certificate: new x509.X509Certificate(certificatePem),
    key: await crypto.subtle.importKey('pkcs8', key, EC, false, ['sign']),
  };
}

/**
 * A serving certificate for `names` (DNS names and addresses), valid from five minutes before `now` for 90 days, but
 * not beyond the authority.
 */
export async function issueServing(
  authority: Authority,
  names: readonly string[],
  now: number,
): Promise<KeyPair> {
  const keys = await newKeys();
  const notBefore = seconds(now - BACKDATE);
  const notAfter = seconds(Math.min(now + SERVING_LIFE, authority.certificate.notAfter.getTime()));
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serial(),
    issuer: authority.certificate.subjectName,
    // Clients read the alternative names only; a host name here could exceed the 64 characters of a CN.
    subject: [{ CN: ['Postern guard'] }],
    notBefore,
    notAfter,
    publicKey: keys.publicKey,
    signingKey: authority.key,
    signingAlgorithm: EC,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        names.map((value) => ({ type: isIP(value) ? ('ip' as const) : ('dns' as const), value })),
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(authority.certificate),
    ],
  });
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey));
  return {
    cert: pem(certificate),
    key: x509.PemConverter.encode(key, 'PRIVATE KEY'),
    notBefore: notBefore.getTime(),
    notAfter: notAfter.getTime(),
  };
}

function newKeys() {
  return crypto.subtle.generateKey(EC, true, ['sign', 'verify']);
}

/** 128 random bits; the first byte keeps the number positive and of full length (RFC 5280, 4.1.2.2). */
function serial(): string {
  return `40${randomBytes(16).toString('hex')}`;
}

/** ASN.1 times have no fractions. */
function seconds(ms: number): Date {
  return new Date(Math.floor(ms / 1000) * 1000);
}

function pem(certificate: x509.X509Certificate): string {
  return `${certificate.toString('pem').trimEnd()}\n`;
}
