// `postern demo`: tells the main job and does it, with the real programs on this machine. Exit 0 only if every step went
// as told.

import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { Context } from '../command.ts';
import { gitStory, openForge } from '../demo/git-story.ts';
import { kubeStory, openCluster } from '../demo/kube-story.ts';
import { NotAsTold, openStage } from '../demo/stage.ts';

export async function demo(context: Context): Promise<number> {
  const stage = await openStage(context.out);
  try {
    stage.say('Postern: what a sandbox can do with a session token, and what it cannot.');
    const forge = await openForge(stage);
    const config = join(stage.folder, 'postern.yaml');
    await writeFile(
      config,
      JSON.stringify({
        dataDir: join(stage.folder, 'var'),
        git: { listen: '127.0.0.1:0', advertise: null, upstreams: [{ url: forge.forge.url }] },
        kube: { listen: '127.0.0.1:0', advertise: null },
        ops: { listen: '127.0.0.1:0' },
        log: { level: 'warn' },
      }),
    );
    const ready = await stage.serve(config);
    stage.say(`A forge that demands a token listens at ${forge.forge.url}, the git guard at ${ready.git}.`);
    await gitStory(stage, forge, config);
    const cluster = await openCluster(stage, context.has('kube') ? ownKubeconfig(context) : undefined);
    if (cluster) await kubeStory(stage, cluster, config);
    else stage.say('\nThere is no kubectl on this machine: the Kubernetes half is left out.');
    stage.say('\nEvery step went as told.');
    if (!context.has('once') && process.stdin.isTTY) await linger(stage.folder, forge.forge.url);
    return 0;
  } catch (error) {
    if (!(error instanceof NotAsTold)) throw error;
    context.err(`\n✗ Not as told: ${error.message}\n`);
    return 1;
  } finally {
    await stage.end();
  }
}

function ownKubeconfig({ env }: Context): string {
  return env.KUBECONFIG || join(homedir(), '.kube', 'config');
}

/** For a person at a terminal, everything stays up until Enter. */
async function linger(folder: string, forge: string): Promise<void> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  await lines.question(
    `\nThe server is still up: npx postern status --config ${folder}/postern.yaml\n` +
      `The forge is ${forge}, its token in ${folder}/forge-token. Press Enter to end it all. `,
  );
  lines.close();
}
