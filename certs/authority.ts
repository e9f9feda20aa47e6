// The guards' own certificates. At the first start an authority is made, its key sealed in the store; each process
// issues itself a serving certificate for every advertised name and for loopback, keeps its key in memory only, and
// replaces it at two thirds of its 90 days while it runs. Clients trust one file, `ca.pem`.
//
//   issue.ts  makes certificates        stored-authority.ts  the authority's row      ticket-keys.ts  shared tickets
//   names.ts  what they are issued for  source.ts            what a server gets       files.ts        or your own files
//   rotation.ts  another authority
//
// What it refuses: to serve with an authority that it cannot open, and to go on serving unnoticed when a renewal fails
// (health says so for the thirty days that are left).

import { join } from 'node:path';
import type { AuditLog } from '../audit/log.ts';
import { type Clock, rfc3339 } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Store } from '../store/store.ts';
import { writeBundle } from './bundle.ts';
import { issueServing, type KeyPair } from './issue.ts';
import { servingNames } from './names.ts';
import { advanceRotation, beginRotation, type Rotation } from './rotation.ts';
import { type CertificateSource, healthOf, regularly, servers } from './source.ts';
import { AUTHORITY_ROW, loadAuthority, type StoredAuthority } from './stored-authority.ts';
import { openTicketKeys, type TicketKeys } from './ticket-keys.ts';

const CHECK_EVERY = 60_000;
const OVERLAP = 12 * 3_600_000;

export interface AuthorityOptions {
  readonly store: Store;
  readonly keyring: Keyring;
  /** Host names and addresses under which the guards are reached; loopback is always among them. */
  readonly names: readonly string[];
  /** Where `ca.pem` goes. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly audit?: AuditLog;
  /** How long what was delivered can be in use, in milliseconds: sessions.maxTtl. */
  readonly overlap?: number;
}

export interface AuthoritySource extends CertificateSource {
  /** For sources of other certificates in this process. */
  readonly tickets: TicketKeys;
  /** Issues a new certificate where these are other names than before. */
  setNames(names: readonly string[]): Promise<void>;
  /**
   * Replaces the authority, after what was delivered has ended or `now`.
   * @throws PosternError as `beginRotation` does, `audit_unavailable`
   */
  rotate(actor: string, now: boolean): Promise<Rotation>;
}

interface Serving extends KeyPair {
  readonly names: readonly string[];
  readonly issuer: StoredAuthority;
}

/**
 * @throws PosternError as `Keyring.open` does, `store_unavailable`, `audit_unavailable`, `invalid_config` (a name that
 *   no certificate can carry, a `dataDir` that cannot be written), `gone` (the authority has expired)
 */
export async function openAuthority(options: AuthorityOptions): Promise<AuthoritySource> {
  const { store, clock, log, audit } = options;
  let names = servingNames(options.names);
  // Before the one that signs is read: it may be past its time, and its successor there.
  await advance();
  let authority = await loadAuthority(options);
  if (authority.created) await audit?.append({ action: 'ca.created', decision: 'allow' }, 'durable');
  await publish(options.dataDir, authority);
  let serving: Serving = await issue();
  let failure: string | undefined;

  const tickets = await openTicketKeys(options);
  const attached = servers(() => ({ cert: serving.cert, key: serving.key }), tickets);

  async function issue(): Promise<Serving> {
    const now = clock.now();
    const wanted = names;
    const issuer = authority;
    if (now >= authority.certificate.notAfter.getTime()) throw expired(authority);
    const pair = await issueServing(issuer, wanted, now);
    const reason = `for ${wanted.join(', ')}, until ${rfc3339(pair.notAfter)}`;
    await audit?.append({ action: 'ca.certificate_issued', decision: 'allow', reason }, 'written');
    return { ...pair, names: wanted, issuer };
  }

  async function renew(): Promise<void> {
    try {
      serving = await issue();
      failure = undefined;
      attached.update();
      log.info({ names, notAfter: rfc3339(serving.notAfter) }, 'serving certificate renewed');
    } catch (error) {
      failure = `the serving certificate could not be renewed: ${(error as Error).message}`;
      log.error({ err: error }, 'the serving certificate could not be renewed; it is tried again');
    }
  }

  async function check(): Promise<void> {
    await tickets.check();
    try {
      await advance();
      await takeOver();
    } catch (error) {
      log.warn({ err: error }, 'the certificate authority could not be read again; the one in use stays');
    }
    const stale = serving.names !== names || serving.issuer.bundle !== authority.bundle;
    if (stale || isDue(serving, clock.now())) await renew();
  }

  async function advance(): Promise<void> {
    if (!(await advanceRotation(options))) return;
    const reason = 'the new authority signs from now on';
    await audit
      ?.append({ action: 'ca.rotated', decision: 'allow', reason }, 'durable')
      .catch((error: unknown) => {
        log.error({ err: error }, 'the rotation of the certificate authority could not be recorded');
      });
    log.info({}, 'the new certificate authority signs from now on');
  }

  /** The row also moves when its key is sealed anew; only another certificate is news to clients. */
  async function takeOver(): Promise<void> {
    const row = await store.get(AUTHORITY_ROW.set, AUTHORITY_ROW.id);
    if (!row || row.rev === authority.rev) return;
    const next = await loadAuthority(options);
    await publish(options.dataDir, next);
    authority = next;
  }

  const timer = regularly(CHECK_EVERY, check);
  const unwatch = store.watch((changes) => {
    if (changes.some((change) => change.set === AUTHORITY_ROW.set)) void timer.run();
  });

  return {
    tickets,
    caPem: () => authority.bundle,
    contextOptions: attached.options,
    attach: attached.attach,
    health: () => healthOf(serving, clock.now(), failure),
    check: timer.run,
    async setNames(next) {
      const wanted = servingNames(next);
      if (wanted.join() === names.join()) return;
      names = wanted;
      await renew();
    },
    async rotate(actor, now) {
      const overlap = options.overlap ?? OVERLAP;
      const reason = now
        ? 'at once: the new authority signs from now on, the old one is not trusted any more'
        : `the new authority is in the bundle and signs from ${rfc3339(clock.now() + overlap)}, or as begun before`;
      await audit?.append({ action: 'ca.rotated', decision: 'allow', actor, reason }, 'durable');
      const begun = await beginRotation(options, overlap, now);
      // A check that is under way may have read the row before.
      await timer.run();
      await timer.run();
      return begun;
    },
    close() {
      timer.close();
      unwatch();
      attached.close();
    },
  };
}

/** At two thirds of its life; also when the clock was set back to before it began. */
export function isDue(pair: { readonly notBefore: number; readonly notAfter: number }, now: number): boolean {
  return now < pair.notBefore || now >= pair.notBefore + ((pair.notAfter - pair.notBefore) * 2) / 3;
}

async function publish(dataDir: string, authority: StoredAuthority): Promise<void> {
  const file = join(dataDir, 'ca.pem');
  try {
    await writeBundle(file, authority.bundle);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new PosternError('invalid_config', `dataDir: ${file} cannot be written (${code})`, {
      key: 'dataDir',
      cause,
    });
  }
}

function expired(authority: StoredAuthority): PosternError {
  const at = rfc3339(authority.certificate.notAfter.getTime());
  const remedy = 'rotate it (postern ca rotate), or serve your own certificate (git.tls, kube.tls)';
  return new PosternError('gone', `the certificate authority expired at ${at}; ${remedy}`, { remedy });
}
