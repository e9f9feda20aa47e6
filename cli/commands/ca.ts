// `ca show|bundle|rotate`: the authority that the guards are trusted by. Public; read from dataDir/ca.pem, which the server
// keeps up to date, or from a server that is named.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PosternError } from '../../common/errors.ts';
import type { RotateAnswer } from '../../control/server-routes.ts';
import type { Context } from '../command.ts';
import { facts, jsonText } from '../output.ts';

export async function show(context: Context): Promise<number> {
  const { describeBundle } = await import('../../control/server-routes.ts');
  const { certificates } = describeBundle(await pem(context));
  if (context.json) context.out(jsonText({ certificates }));
  else
    context.out(
      certificates
        .map((one) =>
          facts([
            ['subject', one.subject],
            ['fingerprint', one.fingerprint256],
            ['valid from', one.notBefore],
            ['valid until', one.notAfter],
          ]),
        )
        .join('\n'),
    );
  return 0;
}

export async function bundle(context: Context): Promise<number> {
  const text = await pem(context);
  context.out(context.json ? jsonText({ pem: text }) : text);
  return 0;
}

export async function rotate(context: Context): Promise<number> {
  const client = await context.client();
  const answer = await client.call<RotateAnswer>('POST', '/v1/ca/rotate', { now: context.has('now') });
  if (context.json) context.out(jsonText(answer));
  else if (context.has('now'))
    context.out('The new authority signs. Give ca.pem to hubs and sandboxes anew.\n');
  else
    context.out(
      `${answer.underWay ? 'A rotation is under way' : 'The new authority is in ca.pem'}; it signs from ${answer.takesOverAt} on.\nGive ca.pem to hubs before that (postern ca bundle).\n`,
    );
  return 0;
}

async function pem(context: Context): Promise<string> {
  if (context.remote) return (await (await context.client()).ca()).pem;
  const { dataDir, git, kube } = await context.config();
  // An operator's own certificate comes with an authority that is not in the file; only the server knows it.
  if (git.tls || kube.tls) return (await (await context.client()).ca()).pem;
  try {
    return await readFile(join(dataDir, 'ca.pem'), 'utf8');
  } catch (cause) {
    throw new PosternError('not_found', `There is no ca.pem in ${dataDir}.`, {
      key: 'dataDir',
      remedy: 'Start postern serve once with this configuration, or name a server with --server.',
      cause,
    });
  }
}
