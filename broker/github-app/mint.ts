// Minting one installation token: as narrow as the grant says, and refused where GitHub gives more. Where the grant names
// repositories the installation is listed first, with a token that can read nothing but names and is destroyed at once.

import type { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { compact } from '../compact.ts';
import type { Constraints } from '../constraints/constraints.ts';
import type { Context } from '../context.ts';
import type { InstallationToken } from './api.ts';
import { appJwt } from './jwt.ts';
import type { AppCredential } from './payload.ts';
import { appPermissions, excess, selectRepos, type TokenScope, wholeInstallation } from './scope.ts';

export interface MintedToken {
  readonly token: Credential;
  readonly expiresAt: number;
  readonly scope: TokenScope;
}

type Base = Pick<Context, 'deps' | 'now'>;

/**
 * @param scope that of the token before, so that a renewal can't grow; absent: worked out from the constraints
 * @throws PosternError `github_app_failed`; `policy_refused` where the installation lacks a repository that is named
 */
export async function mintToken(
  context: Base,
  app: AppCredential,
  constraints: Constraints,
  scope: TokenScope | undefined,
): Promise<MintedToken> {
  const asked = scope ?? (await workOut(context, app, constraints));
  const token = await create(context, app, asked);
  return { token: token.token, expiresAt: token.expiresAt, scope: asked };
}

async function workOut(context: Base, app: AppCredential, constraints: Constraints): Promise<TokenScope> {
  const permissions = appPermissions(constraints);
  if (wholeInstallation(constraints)) return compact({ permissions });
  const { github } = context.deps;
  const lookup = await create(context, app, { permissions: { metadata: 'read' } });
  try {
    const selected = selectRepos(constraints.repos ?? [], await github.listRepos(app.apiUrl, lookup.token));
    if ('problem' in selected)
      throw new PosternError('policy_refused', `No token was minted: ${selected.problem}.`, {
        key: 'constraints.repos',
        remedy: "Add the repository to the App's installation, or take it out of the grant.",
      });
    return compact({ repositoryIds: selected.ids, permissions });
  } finally {
    await github.destroyToken(app.apiUrl, lookup.token).catch((error: unknown) => {
      context.deps.log.warn(
        { reason: String(error) },
        'a lookup token was not destroyed; GitHub ends it within the hour',
      );
    });
  }
}

async function create(context: Base, app: AppCredential, asked: TokenScope): Promise<InstallationToken> {
  const { github } = context.deps;
  const jwt = await appJwt(app, context.now());
  const { apiUrl, installationId } = app;
  const token = await github.createToken({ apiUrl, jwt, installationId, ...asked });
  const more = excess(asked, token);
  if (more.length === 0 && token.expiresAt > context.now()) return token;
  await github.destroyToken(apiUrl, token.token).catch(() => {});
  throw new PosternError(
    'github_app_failed',
    more.length > 0
      ? `GitHub answered a token wider than asked for (${more.slice(0, 5).join(', ')}); it was not used.`
      : "GitHub answered a token that has ended already; see this host's clock.",
  );
}
