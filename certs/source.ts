// What a TLS server needs from certs/, whoever issued the certificate; and the part that every source shares: handing
// a new certificate or new ticket keys to the servers that run. Connections that are open stay as they are.
//
// TLS 1.2 and later with Node's own list of ciphers. ALPN names http/1.1 alone: git, kubectl and the upgrades of exec
// speak it, and a guard that reads one protocol has one parser to get right.

import type { Server, TlsOptions } from 'node:tls';
import { rfc3339 } from '../common/clock.ts';
import type { TicketKeys } from './ticket-keys.ts';

export interface CertificateHealth {
  /** Whether clients can use what is served now. */
  readonly ok: boolean;
  /** Also where `ok`: a renewal or a reload that failed and is tried again. */
  readonly reason?: string;
  readonly notAfter: number;
}

export interface CertificateSource {
  /** PEM: what clients are to trust. */
  caPem(): string;
  /** For `https.createServer`; `attach` the server, so that it follows renewals. */
  contextOptions(): TlsOptions;
  /** @returns the function that lets the server go */
  attach(server: Server): () => void;
  health(): CertificateHealth;
  /** Renews, reissues or reads again where that is due. Called by a timer too; never rejects. */
  check(): Promise<void>;
  close(): void;
}

export interface Served {
  /** PEM, the leaf first. */
  readonly cert: string;
  readonly key: string;
}

/** Hands out one certificate at a time. */
export function servers(current: () => Served, tickets: TicketKeys) {
  const attached = new Set<Server>();
  const options = (): TlsOptions => ({
    ...current(),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    ticketKeys: tickets.current(),
    // The default is derived from the command line: a session would not resume at another replica.
    sessionIdContext: 'postern',
  });
  const update = (): void => {
    for (const server of attached) server.setSecureContext(options());
  };
  const stop = tickets.onChange(update);
  return {
    options,
    /** Gives the current certificate to every attached server. */
    update,
    attach(server: Server): () => void {
      attached.add(server);
      const release = (): void => {
        attached.delete(server);
        server.off('close', release);
      };
      server.once('close', release);
      return release;
    },
    close(): void {
      stop();
      attached.clear();
    },
  };
}

/** Runs `task` now and then, one at a time, without holding the process open. */
export function regularly(
  everyMs: number,
  task: () => Promise<void>,
): { run(): Promise<void>; close(): void } {
  let running: Promise<void> | undefined;
  const run = (): Promise<void> => {
    running ??= task().finally(() => {
      running = undefined;
    });
    return running;
  };
  const timer = setInterval(() => void run(), everyMs);
  timer.unref();
  return { run, close: () => clearInterval(timer) };
}

/** `failure`: a renewal or reload that failed; it matters little while what is served can still be used. */
export function healthOf(
  served: { readonly notBefore: number; readonly notAfter: number },
  now: number,
  failure: string | undefined,
): CertificateHealth {
  const { notBefore, notAfter } = served;
  if (now >= notAfter)
    return { ok: false, reason: failure ?? `the certificate expired at ${rfc3339(notAfter)}`, notAfter };
  if (now < notBefore)
    return { ok: false, reason: `the certificate begins at ${rfc3339(notBefore)}`, notAfter };
  return failure === undefined ? { ok: true, notAfter } : { ok: true, reason: failure, notAfter };
}
