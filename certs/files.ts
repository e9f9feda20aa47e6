// The operator's own certificate in place of one from our authority. The files are read again when they change (also
// when a mounted Secret swaps its link); a new set that cannot be served is reported and the old one stays.
//
// A set is served only where a client could use it: the key belongs to the certificate, it is valid now, it names what
// is advertised, and it chains to the authority that clients are told to trust.

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { type Clock, rfc3339 } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import { type CertificateSource, healthOf, regularly, type Served, servers } from './source.ts';
import type { TicketKeys } from './ticket-keys.ts';

const CHECK_EVERY = 10_000;
const MAX_BYTES = 1024 * 1024;

export interface OwnCertificateOptions {
  readonly files: {
    readonly certFile: string;
    readonly keyFile: string;
    readonly caFile: string | undefined;
  };
  /** What messages name: `git.tls`. */
  readonly key: string;
  /** What the certificate must name: the host of `advertise`. */
  readonly names: readonly string[];
  readonly tickets: TicketKeys;
  readonly clock: Clock;
  readonly log: Log;
}

export interface OwnCertificate extends Served {
  readonly ca: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** @throws PosternError `invalid_config` naming the key, the file and what is wrong with it */
export async function openOwnCertificate(options: OwnCertificateOptions): Promise<CertificateSource> {
  const { clock, log, key } = options;
  let signature = await signatureOf(options);
  let serving = await readOwnCertificate(options);
  let failure: string | undefined;
  const attached = servers(() => ({ cert: serving.cert, key: serving.key }), options.tickets);

  async function check(): Promise<void> {
    // Taken before the files are read: a change that comes between is seen at the next check.
    const next = await signatureOf(options);
    if (next === signature) return;
    signature = next;
    try {
      serving = await readOwnCertificate(options);
      failure = undefined;
      attached.update();
      log.info({ key, notAfter: rfc3339(serving.notAfter) }, 'the new certificate is served');
    } catch (error) {
      failure = (error as Error).message;
      log.error({ err: error }, 'the new certificate cannot be served; the one before it stays');
    }
  }

  const timer = regularly(CHECK_EVERY, check);
  return {
    caPem: () => serving.ca,
    contextOptions: attached.options,
    attach: attached.attach,
    health: () => healthOf(serving, clock.now(), failure),
    check: timer.run,
    close() {
      timer.close();
      attached.close();
    },
  };
}

/** Reads and checks the files once: for doctor too. Throws as `openOwnCertificate`. */
export async function readOwnCertificate(
  options: Pick<OwnCertificateOptions, 'files' | 'key' | 'names' | 'clock'>,
): Promise<OwnCertificate> {
  const { files, key, names, clock } = options;
  const [cert, keyPem, caPem] = await Promise.all([
    readPem(files.certFile, `${key}.certFile`),
    readPem(files.keyFile, `${key}.keyFile`),
    files.caFile === undefined ? undefined : readPem(files.caFile, `${key}.caFile`),
  ]);
  const bad = (which: 'certFile' | 'keyFile' | 'caFile', problem: string): PosternError =>
    new PosternError('invalid_config', `${key}.${which}: ${files[which] ?? ''} ${problem}`, {
      key: `${key}.${which}`,
    });

  const chain = certificates(cert);
  const [leaf] = chain;
  if (!leaf) throw bad('certFile', 'holds no certificate that can be read');
  if (!leaf.checkPrivateKey(privateKey(keyPem, (problem) => bad('keyFile', problem))))
    throw bad('keyFile', `is not the key of the first certificate in ${files.certFile}`);

  const [notBefore, notAfter] = [leaf.validFromDate.getTime(), leaf.validToDate.getTime()];
  if (clock.now() >= notAfter) throw bad('certFile', `expired at ${rfc3339(notAfter)}`);
  if (clock.now() < notBefore) throw bad('certFile', `is not valid before ${rfc3339(notBefore)}`);
  const missing = names.find((name) => !covers(leaf, name));
  if (missing !== undefined)
    throw bad(
      'certFile',
      `does not name ${missing}, which is advertised; it names ${leaf.subjectAltName ?? 'nothing'}`,
    );

  const roots = caPem === undefined ? chain.filter(isSelfSigned) : certificates(caPem);
  if (roots.length === 0)
    throw caPem === undefined
      ? bad('certFile', `does not end with its authority's certificate; name that in ${key}.caFile`)
      : bad('caFile', 'holds no certificate that can be read');
  if (!chainsTo(leaf, chain.slice(1), roots))
    throw bad(
      'certFile',
      `does not chain to ${files.caFile ?? 'its last certificate'}; add the intermediates`,
    );
  const ca = caPem ?? roots.map((root) => root.toString()).join('');
  return { cert, key: keyPem, ca, notBefore, notAfter };
}

async function readPem(file: string, key: string): Promise<string> {
  let problem = `is larger than ${MAX_BYTES} bytes`;
  let cause: unknown;
  try {
    const found = await stat(file);
    if (!found.isFile()) problem = 'is not a regular file';
    else if (found.size <= MAX_BYTES) return await readFile(file, 'utf8');
  } catch (error) {
    cause = error;
    const code = (error as NodeJS.ErrnoException).code;
    problem = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code ?? 'unknown error'})`;
  }
  throw new PosternError('invalid_config', `${key}: ${file} ${problem}`, { key, cause });
}

function certificates(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch {
    return [];
  }
}

function privateKey(pem: string, bad: (problem: string) => PosternError): KeyObject {
  // OpenSSL would ask the terminal for the passphrase, and the server would wait there.
  if (/ENCRYPTED/.test(pem)) throw bad('has a passphrase; store the key without one');
  try {
    return createPrivateKey(pem);
  } catch {
    throw bad('holds no private key that can be read');
  }
}

function covers(leaf: X509Certificate, name: string): boolean {
  const bare = name.replace(/^\[(.*)\]$/, '$1');
  return (isIP(bare) ? leaf.checkIP(bare) : leaf.checkHost(bare, { subject: 'never' })) !== undefined;
}

function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey);
}

function chainsTo(
  leaf: X509Certificate,
  between: readonly X509Certificate[],
  roots: readonly X509Certificate[],
): boolean {
  const signed = (by: X509Certificate) => (one: X509Certificate) =>
    one.checkIssued(by) && one.verify(by.publicKey);
  let reached = [leaf];
  for (let depth = 0; depth <= between.length; depth++) {
    const trusted = reached.some((one) =>
      roots.some((root) => root.raw.equals(one.raw) || signed(root)(one)),
    );
    if (trusted) return true;
    reached = between.filter((candidate) => reached.some(signed(candidate)));
  }
  return false;
}

async function signatureOf({ files }: Pick<OwnCertificateOptions, 'files'>): Promise<string> {
  const parts = await Promise.all(
    [files.certFile, files.keyFile, files.caFile].map(async (file) => {
      if (file === undefined) return '';
      const found = await stat(file, { bigint: true }).catch(() => undefined);
      return found ? `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}` : 'none';
    }),
  );
  return parts.join(' ');
}
