// A GitHub App. What a lease gets is an installation token, narrowed by GitHub itself to the repositories and permissions
// of the grant; the private key never leaves the broker. Where no token can be minted the grant is denied: there is
// nothing to fall back to.

import { type AppCredential, forgeOf, parseApp } from '../github-app/payload.ts';
import { checkGithub, GITHUB_CONSTRAINTS, GITHUB_USERNAME, githubScope } from './github-pat.ts';
import type { KindRules } from './kind-rules.ts';

export const githubApp: KindRules<AppCredential> = {
  kind: 'github_app',
  constraints: GITHUB_CONSTRAINTS,
  inspect(payload) {
    parseApp(payload);
    return [];
  },
  destination(payload) {
    const { apiUrl, upstream = '' } = parseApp(payload);
    return `${apiUrl} ${upstream}`;
  },
  credentials: (payload) => [payload.toString('utf8')],
  checkConstraints: checkGithub,
  minimise: (payload) => parseApp(payload),
  async materialise(app, context) {
    const { token, tokenId, expiresAt } = await context.appTokens.obtain(
      context.grant,
      context.until,
      async () => app,
    );
    return {
      type: 'git',
      credential: {
        token,
        username: GITHUB_USERNAME,
        upstream: forgeOf(app, context.upstreams),
        ...githubScope(context.grant.constraints, context),
      },
      app: { tokenId, expiresAt },
    };
  },
};
