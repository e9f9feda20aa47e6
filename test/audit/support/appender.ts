// A process that appends as fast as it is answered, until it is killed: `node appender.ts DIR ROUND`. It prints the
// number of every event that it was told is kept.

import { generateKeyPairSync, sign } from 'node:crypto';
import { writeSync } from 'node:fs';
import { openAuditLog } from '../../../audit/open.ts';
import { createRedactor } from '../../../common/redact.ts';

const [, , dir = '', round = ''] = process.argv;
const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const log = await openAuditLog({
  dir,
  onFailure: 'refuse',
  syncReads: false,
  retention: 90 * 86_400_000,
  redactor: createRedactor(),
  segmentBytes: 200_000,
  checkpointEvery: 20,
  signer: {
    publicKeyPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (bytes) => sign(null, bytes, privateKey),
  },
});

async function appendForever(from: number, step: number): Promise<void> {
  for (let n = from; ; n += step) {
    const sessionId = `sess_${round}_${n}`;
    const durability = n % 50 === 0 ? 'durable' : 'written';
    await log.append(
      { action: 'git.fetch', decision: 'allow', sessionId, reason: 'r'.repeat(n % 700) },
      durability,
    );
    writeSync(1, `${n}\n`);
  }
}

await Promise.all(Array.from({ length: 40 }, (_, i) => appendForever(i, 40)));
