// Connecting to upstreams so that what is cut stays cut. An aborted request's connection is destroyed by undici, and the
// system still sends what it has buffered, some megabytes, and then a clean end: the rest of a push could reach the forge
// after a revocation has answered. Here an abort resets the connection, which drops what has not left the host.

import { connect as connectPlain, type Socket } from 'node:net';
import { buildConnector } from 'undici';

/** Like undici's own connector. */
export function resettingConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(options);
  return (target, callback) => {
    // A TLS socket cannot be reset itself; the one below it can.
    const below =
      target.protocol === 'https:'
        ? connectPlain({ host: target.hostname, port: Number(target.port || 443), noDelay: true })
        : undefined;
    connect({ ...target, ...(below ? { httpSocket: below } : {}) }, (...[error, socket]) => {
      if (error !== null) {
        below?.destroy();
        return callback(error, null);
      }
      resetOnAbort(socket, below ?? socket);
      callback(null, socket);
    });
  };
}

/** undici calls `destroy` with this message when a request is aborted. */
function resetOnAbort(socket: Socket, below: Socket): void {
  const destroy = socket.destroy;
  socket.destroy = (error) => {
    socket.destroy = destroy;
    if (error?.message === 'aborted') below.resetAndDestroy();
    return destroy.call(socket, error);
  };
}
