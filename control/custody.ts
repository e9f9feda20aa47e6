// The credentials of a call that issues a session: each sent as a value or pointed at by `valueFrom`. A reference is
// read on the server's host with the server's rights, so it is a way to read the host: only `admin` may use one. A hub
// that could name a file would read the key of the store with it.

import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { resolveValueFrom, type ValueFrom, type ValueSources } from '../common/value-from.ts';
import { type Caller, demand } from './roles.ts';

export type HostSources = Omit<ValueSources, 'key'>;

/**
 * @param key the JSON path of the entry, for messages
 * @param member the name under which a value may be sent: `token`, `kubeconfig`
 * @throws PosternError `invalid_input`, `forbidden`
 */
export async function credentialOf(
  entry: { readonly value: Credential | undefined; readonly valueFrom: ValueFrom | undefined },
  key: string,
  member: string,
  caller: Caller,
  host: HostSources,
): Promise<Credential> {
  const { value, valueFrom } = entry;
  if (value && !valueFrom) return value;
  if (value || !valueFrom)
    throw new PosternError('invalid_input', `${key}: give either ${member} or valueFrom.`, { key });
  demand(caller, 'host:read');
  return resolveValueFrom(valueFrom, { ...host, key: `${key}.valueFrom` });
}
