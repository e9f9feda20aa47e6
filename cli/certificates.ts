// Which certificate each front serves: one from our own authority, or the operator's.

import { type AuthorityOptions, type AuthoritySource, openAuthority } from '../certs/authority.ts';
import { openOwnCertificate } from '../certs/files.ts';
import type { CertificateSource } from '../certs/source.ts';
import type { Closers } from './closers.ts';
import type { Config, TlsFiles } from './config.ts';
import { hostOf, servedNames } from './config-address.ts';

export interface Certificates {
  readonly git: CertificateSource;
  readonly kube: CertificateSource;
  /** Where the control API has a TLS address. */
  readonly control: CertificateSource | undefined;
  /** Whether clients can use all that are served, and if not why. */
  health(): { ok: boolean; reason?: string };
  /** PEM: what a sandbox trusts for the guards that run. */
  bundle(): string;
  /** Replaces the authority of the certificates that are our own. */
  rotate: AuthoritySource['rotate'];
}

/** @throws PosternError as `openAuthority` and `openOwnCertificate` do */
export async function openCertificates(
  config: Config,
  closers: Closers,
  parts: Omit<AuthorityOptions, 'names' | 'dataDir'>,
): Promise<Certificates> {
  const { git, kube, control, dataDir, sessions } = config;
  const { clock, log } = parts;
  const authority = closers.keep(
    await openAuthority({
      ...parts,
      names: servedNames(git, kube, control),
      dataDir,
      overlap: sessions.maxTtl,
    }),
    (one) => one.close(),
  );
  const source = async (
    { tls, advertise }: { tls: TlsFiles | undefined; advertise?: string | undefined },
    key: string,
  ): Promise<CertificateSource> => {
    if (!tls) return authority;
    const names = advertise === undefined ? [] : [hostOf(advertise)];
    const { tickets } = authority;
    return closers.keep(await openOwnCertificate({ files: tls, key, names, tickets, clock, log }), (one) =>
      one.close(),
    );
  };
  const forGit = await source(git, 'git.tls');
  const forKube = await source(kube, 'kube.tls');
  const forControl = control.listen && (await source(control, 'control.tls'));
  const guards = [...(git.enabled ? [forGit] : []), ...(kube.enabled ? [forKube] : [])];
  return {
    git: forGit,
    kube: forKube,
    control: forControl,
    health: () =>
      [...guards, ...(forControl ? [forControl] : [])].map((one) => one.health()).find((one) => !one.ok) ?? {
        ok: true,
      },
    rotate: (actor, now) => authority.rotate(actor, now),
    bundle: () => [...new Set(guards.map((one) => one.caPem()))].join(''),
  };
}
