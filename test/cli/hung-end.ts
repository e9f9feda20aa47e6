// Opens a trail on a disk that hangs, closes it and ends as `serve` does. Arguments: the folder, the pipe.
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openAuditLog } from '../../audit/open.ts';
import { end } from '../../cli/commands/serve.ts';
import { createRedactor } from '../../common/redact.ts';

const [dir = '', pipe = ''] = process.argv.slice(2);
const diskModule = new URL('./hung-disk.ts', import.meta.url);
diskModule.searchParams.set('pipe', pipe);
const audit = await openAuditLog({
  dir,
  onFailure: 'continue',
  syncReads: false,
  retention: 86_400_000,
  signer: { publicKeyPem: '', sign: () => Buffer.alloc(64) },
  redactor: createRedactor(),
  patience: 100,
  diskModule: diskModule.href,
});
// A slow machine's thread may not have come to its first write yet, and then it does not hang.
while (!existsSync(`${pipe}.reached`)) await sleep(10);
await audit.close();
process.on('SIGTERM', () => {});
process.stdout.write(`hangs: ${audit.hangs()}\n`);
await end(audit.hangs(), { error() {}, flush: async () => {} });
