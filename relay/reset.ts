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
  const destroyBelow = below.destroy;
  socket.destroy = (error) => {
    // A reset destroys without an error, and what breaks off would be taken for an end.
    socket.destroy = () => destroy.call(socket, error);
    if (error?.message !== 'aborted') return socket.destroy();
    if (below === socket) return socket.resetAndDestroy();
    // TLS has to close first, which destroys what is below it: a reset from within a read would leave it open for ever.
    below.destroy = () => {
      below.destroy = destroyBelow;
      return below.resetAndDestroy();
    };
    return socket.destroy();
  };
}
