// One address does not use up the listener's connections by holding them idle or half shaken hands: above its share, the
// connection of it that has been idle longest is closed for each new one; where none is idle and the rest are handshakes,
// the new one is. Connections with a request under way are never touched, and nothing is done for each request.

import type { Socket } from 'node:net';
import type { Server } from 'node:tls';
import { networkOf } from '../common/network.ts';

interface Peer {
  /** Handshakes included. */
  open: number;
  /** Past the handshake, oldest first. */
  readonly secure: Set<Socket>;
}

/**
 * @param most connections of one address (of IPv6: one /64) before anything is closed
 * @param isBusy whether a request is under way on it
 */
export function limitIdle(server: Server, most: number, isBusy: (socket: Socket) => boolean): void {
  const peers = new Map<string, Peer>();

  server.on('connection', (socket: Socket) => {
    const name = networkOf(socket.remoteAddress ?? '');
    const peer = peers.get(name) ?? { open: 0, secure: new Set() };
    peers.set(name, peer);
    peer.open += 1;
    socket.once('close', () => {
      peer.open -= 1;
      if (peer.open === 0) peers.delete(name);
    });
    if (peer.open <= most) return;
    for (const idle of peer.secure) if (!isBusy(idle)) return void idle.destroy();
    if (peer.open - peer.secure.size > most) socket.destroy();
  });

  server.on('secureConnection', (socket: Socket) => {
    const peer = peers.get(networkOf(socket.remoteAddress ?? ''));
    peer?.secure.add(socket);
    socket.once('close', () => peer?.secure.delete(socket));
  });
}
