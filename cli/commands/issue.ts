// `session issue git|kube`: the credential goes from a file to the server, the substitute from the answer to files. The
// folder is made or checked before anything is issued, and a session whose files can't be written is revoked again:
// a live session that nobody holds is of no use to anyone.

import { mkdtemp, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Credential } from '../../common/credential.ts';
import type { ControlClient } from '../../control/client.ts';
import { type Folder, openFolder } from '../../delivery/folder.ts';
import { parcel, type Shares } from '../../delivery/parcel.ts';
import { shellWord } from '../../delivery/quote.ts';
import type { Context } from '../command.ts';
import { readLabels } from '../labels.ts';
import { facts, jsonText } from '../output.ts';
import { secretInput } from '../secret-input.ts';

export async function issueGit(context: Context): Promise<number> {
  const { flag, all } = context;
  const username = flag('username');
  const permissions = all('permission');
  const pushRefs = all('push-ref');
  const ineffective = [
    ...(pushRefs.length > 0 ? ['--push-ref'] : []),
    ...(context.has('allow-delete') ? ['--allow-delete'] : []),
  ];
  if (ineffective.length > 0 && !permissions.some((one) => one === '*' || one === 'contents:write'))
    context.err(
      `note: ${ineffective.join(' and ')} ${ineffective.length > 1 ? 'have' : 'has'} no effect without --permission contents:write\n`,
    );
  const credential = {
    upstream: flag('upstream') ?? '',
    repos: [...all('repo')],
    ...(permissions.length > 0 && { permissions: [...permissions] }),
    ...(pushRefs.length > 0 && { pushRefs: [...pushRefs] }),
    ...(context.has('allow-delete') && { allowDelete: true }),
    ...(username !== undefined && { username }),
    token: await secretInput('--token-file', flag('token-file') ?? '', context.stdin, 'one'),
  };
  return deliver(context, async (client) => {
    const answer = await client.issueGit({ ...terms(context), credentials: [credential] });
    return {
      answer,
      share: { git: { ...answer, password: new Credential(answer.password) } },
      hint: `git clone ${answer.upstreams[0] ?? answer.baseUrl}/OWNER/NAME.git`,
    };
  });
}

export async function issueKube(context: Context): Promise<number> {
  const lists = {
    contexts: [...context.all('context')],
    namespaces: [...context.all('namespace')],
    verbs: [...context.all('verb')],
    resources: [...context.all('resource')],
  };
  const kubeconfig = await secretInput(
    '--kubeconfig',
    context.flag('kubeconfig') ?? '',
    context.stdin,
    'many',
  );
  return deliver(context, async (client) => {
    const answer = await client.issueKube({ ...terms(context), clusters: [{ ...lists, kubeconfig }] });
    const { namespace, ...rest } = answer;
    return {
      answer,
      share: {
        kube: {
          ...rest,
          ...(namespace !== undefined && { namespace }),
          kubeconfig: new Credential(answer.kubeconfig),
        },
      },
      hint: 'kubectl get pods',
    };
  });
}

function terms(context: Context) {
  const ttl = context.flag('ttl');
  return {
    leaseId: context.flag('lease') ?? '',
    labels: readLabels(context.all('label')),
    ...(ttl !== undefined && { ttl }),
  };
}

interface Issued {
  readonly answer: { readonly sessionId: string; readonly summary: string; readonly expiresAt: string };
  readonly share: Omit<Shares, 'ca'>;
  readonly hint: string;
}

async function deliver(context: Context, issue: (client: ControlClient) => Promise<Issued>): Promise<number> {
  const client = await context.client();
  const wanted = context.flag('out');
  const asked = wanted === undefined ? undefined : await openFolder(wanted);
  const { answer, share, hint } = await issue(client).catch(async (error: unknown) => {
    await asked?.discard();
    throw error;
  });
  let folder: Folder | undefined;
  try {
    folder = asked ?? (context.json ? undefined : await privateFolder(context.env));
    if (folder) await fill(folder, { ...share, ca: (await client.ca()).pem }, context.env);
  } catch (error) {
    await client.revoke(answer.sessionId);
    throw error;
  }
  if (context.json) context.out(jsonText(folder ? { ...answer, out: folder.dir } : answer));
  else
    context.out(
      `${facts([
        ['session', answer.sessionId],
        ['access', answer.summary],
        ['expires', answer.expiresAt],
        ['files', folder?.dir],
      ])}\n. ${shellWord(join(folder?.dir ?? '', 'env'))} && ${hint}\n`,
    );
  return 0;
}

async function fill(folder: Folder, shares: Shares, env: Context['env']): Promise<void> {
  await folder.write(parcel(shares, { dir: folder.dir, keep: folder.env, ...configHome(env) }));
}

/** Where the user's own configuration lies, if it is not where git looks by itself. */
export function configHome(env: Context['env']): { readonly xdgConfigHome?: string } {
  const { XDG_CONFIG_HOME: xdg, HOME: home } = env;
  return xdg?.startsWith('/') && xdg !== join(home ?? '', '.config') ? { xdgConfigHome: xdg } : {};
}

/** On a tmpfs where there is one, so that the files end with the machine at the latest. */
export async function privateFolder(env: Context['env']): Promise<Folder> {
  for (const base of [env.XDG_RUNTIME_DIR, '/dev/shm', tmpdir()]) {
    if (!base?.startsWith('/') || !(await stat(base).catch(() => undefined))?.isDirectory()) continue;
    const dir = await mkdtemp(join(base, 'postern-')).catch(() => undefined);
    if (dir) return openFolder(dir);
  }
  return openFolder(await mkdtemp(join(tmpdir(), 'postern-')));
}
