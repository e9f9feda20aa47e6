/** The sets of rows. A name is part of what a sealed row is bound to: changing one makes its rows unopenable. */
export const SETS = {
  secrets: 'secrets',
  names: 'secret_names',
  grants: 'grants',
  leases: 'leases',
  requests: 'requests',
  uses: 'request_uses',
  appTokens: 'app_tokens',
  endingTokens: 'app_tokens_ending',
} as const;
