// A new payload reaches what lives. Custody holds what a guard can use (a token, a reduced kubeconfig), so each kind says
// how its payload becomes that. Where it can't (the new key of an App mints nothing, no context is left of the new
// document), the grant is taken out of the live sessions: the old credential is not spent behind the operator's back.

import { Credential } from '../../common/credential.ts';
import { readRows } from '../body.ts';
import type { Caller } from '../caller.ts';
import type { Context } from '../context.ts';
import { reasonOf } from '../failure.ts';
import { parseApp } from '../github-app/payload.ts';
import { endedBecause, type Grant, grantOf, readGrant } from '../grants/grant.ts';
import { parsePat } from '../kinds/github-pat.ts';
import { kubeconfig, printKubeconfig } from '../kinds/kubeconfig.ts';
import { dropGrant } from '../leases/drop.ts';
import { SETS } from '../sets.ts';
import { withPayload } from './payload.ts';
import type { StoredSecret } from './secret.ts';

export async function refreshSessions(context: Context, stored: StoredSecret, caller: Caller): Promise<void> {
  const { sessions } = context.deps;
  const { id, kind, name } = stored.secret;
  switch (kind) {
    case 'github_pat': {
      const { token } = await withPayload(context, stored, parsePat);
      await sessions.replaceSecret(id, token);
      return;
    }
    case 'github_app':
      return eachGrant(context, id, caller, (grant) =>
        context.appTokens.renew(grantOf(grant), () => withPayload(context, stored, parseApp)),
      );
    case 'kubeconfig':
      return eachGrant(context, id, caller, async ({ id: grantId, constraints }) => {
        const { document } = await withPayload(context, stored, (payload) =>
          kubeconfig.minimise(payload, constraints, name),
        );
        await sessions.replaceGrant(grantId, new Credential(printKubeconfig(document)));
      });
    default:
      return;
  }
}

async function eachGrant(
  context: Context,
  secretId: string,
  caller: Caller,
  refresh: (grant: Grant) => Promise<unknown>,
): Promise<void> {
  const rows = await context.deps.store.list(SETS.grants, { where: { index: 'secret', value: secretId } });
  for (const { grant } of readRows(rows, readGrant, context.deps.log)) {
    if (endedBecause(grant, context.now()) !== undefined) continue;
    await refresh(grant).catch(async (error: unknown) => {
      const because = `the new payload does not serve this grant: ${reasonOf(error)}`;
      await context.record({
        action: 'secret.replace',
        decision: 'deny',
        actor: caller.actor,
        ...grantOf(grant).ref,
        reason: because,
      });
      const leases = await context.deps.store.list(SETS.leases, {
        where: { index: 'grant', value: grant.id },
      });
      for (const lease of leases) await dropGrant(context, lease.id, grant.id, because);
    });
  }
}
