// The caller of the API as the broker knows people. A token's name is the identity: it is what owns a personal secret,
// and it comes from the configuration alone. `admin` sees and deletes what is personal and spends nothing of it.

import type { Caller as BrokerCaller } from '../broker/caller.ts';
import { userName } from './auth.ts';
import type { Caller } from './roles.ts';

export function brokerCaller({ actor, role }: Caller): BrokerCaller {
  return { actor, ...(role === 'admin' && { admin: true }) };
}

/**
 * For the question whether two callers are two people. At the socket the user is the client's own word, and whoever
 * may open the socket may say any: so all of them count as one person, who owns it. The second has to hold a token.
 */
export function personCaller(caller: Caller): BrokerCaller {
  const atSocket = caller.actor.startsWith('cli:'); // no token's name can have a colon
  return { ...brokerCaller(caller), ...(atSocket && { aliases: [`cli:${userName()}`] }) };
}
