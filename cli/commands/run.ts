// `run`: lease, deliver, run, renew, wipe and release. The folder is on a tmpfs and on record before it is made; whatever
// ends this process in order (the command's end, a signal, a launcher that dies) wipes it and releases the lease. After a
// kill -9 the next `run` or `serve` of this user wipes the folder, and the lease ends by itself when nobody renews it.

import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { PosternError } from '../../common/errors.ts';
import type { ControlClient } from '../../control/client.ts';
import type { LeaseDelivery } from '../../control/lease-schemas.ts';
import { childEnvironment } from '../../delivery/child-env.ts';
import { answeredFiles } from '../../delivery/lease-answer.ts';
import { type LeaseFolder, makeLeaseFolder, newLeaseFolderPath } from '../../delivery/lease-folder.ts';
import { defaultRecords } from '../../delivery/lease-records.ts';
import { sweepLeaseFolders } from '../../delivery/lease-sweep.ts';
import type { Context } from '../command.ts';
import { printable } from '../output.ts';
import { type Child, catchSignals, startChild } from '../run/child.ts';
import { keepLease } from '../run/keeper.ts';
import { configHome } from './issue.ts';
import { requesterOf } from './lease.ts';
import { orphaned } from './serve.ts';

/** For a command to end by itself once it was told to. */
const GRACE_MS = 10_000;
/** For the server to answer a release, all tries together. */
const RELEASE_MS = 5_000;

export async function run(context: Context): Promise<number> {
  const say = (text: string): void => context.err(`postern: ${printable(text)}\n`);
  const client = await context.client();
  const own = await ownVariables(context);
  const records = defaultRecords();
  await sweepLeaseFolders(records);

  let child: Child | undefined;
  const early = Promise.withResolvers<NodeJS.Signals>();
  const release = catchSignals((signal) => {
    if (child) child.kill(signal);
    else if (signal !== 'SIGWINCH') early.resolve(signal);
  });
  const endChild = (): void => {
    early.resolve('SIGTERM');
    child?.kill('SIGTERM');
    setTimeout(() => child?.kill('SIGKILL'), GRACE_MS).unref();
  };
  // Whoever read what we say may be gone; the command goes on.
  process.stderr.on('error', () => {});
  // A launcher that dies must not leave the command behind, with credentials.
  process.removeAllListeners('disconnect').once('disconnect', endChild);
  void orphaned(context.env).then(endChild);

  const folder = await makeLeaseFolder(await newLeaseFolderPath(), records);
  let answer: LeaseDelivery | undefined;
  try {
    const ttl = context.flag('ttl');
    const place = { dir: folder.dir, ...configHome(context.env), ...(ttl !== undefined && { ttl }) };
    const askedAt = performance.now();
    const asked = client.call<LeaseDelivery>('POST', '/v1/leases', { ...requesterOf(context), ...place });
    const first = await Promise.race([asked, early.promise]);
    if (typeof first === 'string') {
      const late = sleep(RELEASE_MS, undefined, { ref: false });
      answer = (await Promise.race([asked, late]).catch(() => undefined)) ?? undefined;
      return 128 + constants.signals[first];
    }
    answer = first;
    await folder.write(answeredFiles(answer));
    tell(answer, say);
    const started = startChild(context.args, childEnvironment(context.env, answer.env, own), say);
    child = started;
    const keeper = keepLease({
      ...{ client, folder, first: answer, askedAt, place, say },
      watch: context.has('stop-on-revoke'),
      over(why) {
        say(`the lease is over: ${why}`);
        if (context.has('stop-on-revoke')) endChild();
      },
    });
    const status = await started.status;
    await Promise.race([keeper.stop(), sleep(RELEASE_MS, undefined, { ref: false })]);
    return status;
  } finally {
    await end(client, folder, answer?.leaseId, say);
    release();
    // A call that never ends must not hold the process.
    setTimeout(() => process.exit(), 200).unref();
  }
}

/** Both whatever becomes of the other: the files are wiped also where no server answers. */
async function end(
  client: ControlClient,
  folder: LeaseFolder,
  leaseId: string | undefined,
  say: (text: string) => void,
): Promise<void> {
  const [wiped, released] = await Promise.allSettled([
    folder.wipe(),
    leaseId === undefined ? undefined : releaseLease(client, leaseId),
  ]);
  if (wiped.status === 'rejected') say(`the folder ${folder.dir} could not be wiped; remove it`);
  if (released.status === 'rejected')
    say('the lease could not be released; it ends by itself in 15 minutes at most');
}

async function releaseLease(client: ControlClient, id: string): Promise<void> {
  const late = performance.now() + RELEASE_MS;
  for (;;) {
    try {
      const call = client.call('DELETE', `/v1/leases/${encodeURIComponent(id)}`);
      const timeout = sleep(Math.max(0, late - performance.now()), undefined, { ref: false }).then(() => {
        throw new PosternError('unreachable', 'The server does not answer.');
      });
      await Promise.race([call, timeout]);
      return;
    } catch (error) {
      if (performance.now() + 500 >= late || !(error instanceof PosternError) || error.code !== 'unreachable')
        throw error;
      await sleep(500);
    }
  }
}

/** What the command will lack, or has without a guard; what it has needs no word. */
function tell(answer: LeaseDelivery, say: (text: string) => void): void {
  if (answer.empty) say('no grant matches: the command gets no access');
  for (const { secretName, grantId, reason } of answer.denied)
    say(`${secretName ?? grantId} is not delivered: ${reason}`);
  for (const { text } of answer.summary) if (text.startsWith('unguarded')) say(text);
  for (const { name, source } of [...answer.mounts, ...answer.devices])
    say(`${name} is at ${source}: this command runs in no sandbox that it could be brought into`);
}

/** Variables that configure this program and whose name is not its own. */
async function ownVariables(context: Context): Promise<string[]> {
  if (context.remote) return [];
  const { secretKey } = await context.config();
  return secretKey && 'env' in secretKey ? [secretKey.env] : [];
}
