// The environment of a process that is started with a lease: the caller's own, without what is Postern's, and with what
// the lease delivers. Whatever configures Postern stays here: it may name, or be, the key of the store or of the hub.

/** @param secretNames other variables of the caller that are credentials of this program */
export function childEnvironment(
  own: { readonly [name: string]: string | undefined },
  delivered: { readonly [name: string]: string },
  secretNames: readonly string[] = [],
): { readonly [name: string]: string } {
  const env: { [name: string]: string } = {};
  for (const [name, value] of Object.entries(own))
    if (value !== undefined && !name.startsWith('POSTERN_') && !secretNames.includes(name)) env[name] = value;
  Object.assign(env, delivered);
  return delivered.GIT_CONFIG_GLOBAL === undefined ? env : withCaInfoAsSetting(env);
}

/**
 * What the `env` file does in a shell (env.ts): GIT_SSL_CAINFO beats every setting of a file, also the one that trusts the
 * guard for its URL alone. As a setting it keeps its meaning for all other hosts.
 */
function withCaInfoAsSetting(env: { readonly [name: string]: string }): { readonly [name: string]: string } {
  const { GIT_SSL_CAINFO: ca, ...rest } = env;
  if (ca === undefined || ca === '') return rest;
  const count = /^\d{1,6}$/.test(rest.GIT_CONFIG_COUNT ?? '') ? Number(rest.GIT_CONFIG_COUNT) : 0;
  return {
    ...rest,
    [`GIT_CONFIG_KEY_${count}`]: 'http.sslCAInfo',
    [`GIT_CONFIG_VALUE_${count}`]: ca,
    GIT_CONFIG_COUNT: String(count + 1),
  };
}
