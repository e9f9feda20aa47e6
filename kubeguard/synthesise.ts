// The kubeconfig that a sandbox gets: for each context the guard's address with the context's place at the guard, the
// guard's CA, and the one session token. It is written from scratch, so nothing of the cluster's own can be in it.

import { stringify } from 'yaml';

export interface DeliveredContext {
  /** As the person knows it. */
  readonly name: string;
  /** Its segment in the guard's path, `/c/<segment>`. */
  readonly segment: string;
  readonly namespace?: string | undefined;
}

export interface Delivery {
  /** `https://host:port`, no slash at its end. */
  readonly advertise: string;
  /** PEM */
  readonly ca: string;
  readonly token: string;
  readonly contexts: readonly DeliveredContext[];
  readonly current: string;
}

const USER = 'postern';

/** @returns YAML; holds the session token */
export function synthesise({ advertise, ca, token, contexts, current }: Delivery): string {
  const data = Buffer.from(ca).toString('base64');
  return stringify(
    {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': current,
      clusters: contexts.map(({ name, segment }) => ({
        name,
        cluster: { server: `${advertise}/c/${segment}`, 'certificate-authority-data': data },
      })),
      users: [{ name: USER, user: { token } }],
      contexts: contexts.map(({ name, namespace }) => ({
        name,
        context: { cluster: name, user: USER, ...(namespace === undefined ? {} : { namespace }) },
      })),
    },
    { lineWidth: 0, aliasDuplicateObjects: false },
  );
}

export interface NamedContext {
  readonly name: string;
  /** Of the document it comes from, to tell two of one name apart. */
  readonly secretName?: string | undefined;
}

export interface Placed {
  readonly name: string;
  readonly segment: string;
}

/**
 * The names and the places of all contexts of a session. Contexts of one name from two documents get the secret's name
 * behind theirs. A place is the name where kubectl can send that in a path unescaped; other characters become `-`,
 * because what is escaped on the way (`%2F`) is read in more than one way.
 */
export function placeContexts(contexts: readonly NamedContext[]): Placed[] {
  const count = (name: string): number => contexts.filter((other) => other.name === name).length;
  const names = unique(
    contexts.map(({ name, secretName }, i) => (count(name) > 1 ? `${name}@${secretName ?? i + 1}` : name)),
  );
  const segments = unique(
    names.map((name) => {
      const segment = name.replace(/[^A-Za-z0-9._~:@-]+/g, '-').slice(0, 200);
      return /^\.{0,2}$/.test(segment) ? `context${segment.replaceAll('.', '-')}` : segment;
    }),
  );
  return names.map((name, i) => ({ name, segment: segments[i] as string }));
}

function unique(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let free = name;
    for (let n = 2; taken.has(free); n++) free = `${name}-${n}`;
    taken.add(free);
    return free;
  });
}
