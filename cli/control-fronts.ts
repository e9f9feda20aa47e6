// The control API's two fronts: the Unix socket, and the TLS address where one is configured.

import type { Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { AuditLog } from '../audit/log.ts';
import type { CertificateSource } from '../certs/source.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import { atSocket, withTokens } from '../control/auth.ts';
import { type ControlDeps, controlRoutes } from '../control/routes.ts';
import { createFront, type Front } from '../control/server.ts';
import { listenOnSocket } from '../control/socket.ts';
import type { Config } from './config.ts';
import { formatListen } from './config-address.ts';

export interface Control {
  /** `host:port` of the TLS address. */
  readonly listen: string | undefined;
  /** Accepts no more; calls under way are cut after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** @throws PosternError `already_running`, `invalid_config` */
export async function startControl(options: {
  readonly config: Config;
  readonly version: string;
  readonly deps: ControlDeps;
  readonly audit: AuditLog;
  readonly log: Log;
  readonly tls: CertificateSource | undefined;
}): Promise<Control> {
  const { version, audit, log, tls } = options;
  const { control } = options.config;
  const common = { routes: controlRoutes(options.deps), version, audit, log };
  const socket = await createFront({ ...common, authenticate: atSocket() });
  await listenOnSocket(socket.server, control.socket);
  if (!control.listen || !tls) return { listen: undefined, close: (graceMs) => closeFront(socket, graceMs) };

  const { host, port } = control.listen;
  const secure = await createFront({
    ...common,
    authenticate: withTokens(control.tokens),
    tls: { ...tls.contextOptions(), minVersion: 'TLSv1.2' },
  });
  try {
    await secure.listen({ host, port });
  } catch (cause) {
    await closeFront(socket, 0);
    throw new PosternError(
      'invalid_config',
      `control.listen: ${formatListen(control.listen)} can't be listened on.`,
      {
        key: 'control.listen',
        remedy: 'Choose another address, or port 0.',
        cause,
      },
    );
  }
  tls.attach(secure.server as unknown as HttpsServer);
  const at = secure.server.address() as AddressInfo;
  return {
    listen: formatListen({ host: at.address, port: at.port }),
    async close(graceMs) {
      await Promise.all([closeFront(socket, graceMs), closeFront(secure, graceMs)]);
    },
  };
}

/** A connection that is idle, or stuck in the middle of a request, holds nobody. */
async function closeFront(front: Front, graceMs: number): Promise<void> {
  const cut = setTimeout(() => front.server.closeAllConnections(), graceMs);
  await front.close();
  clearTimeout(cut);
}
