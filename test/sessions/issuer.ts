// A program that issues sessions in a loop and prints each token once `issue` resolved. Started and killed by the test.

import { Credential } from '../../common/credential.ts';
import { openStore } from '../../store/open.ts';
import { newSession, openBench } from './setup.ts';

const [file = ''] = process.argv.slice(2);
const { sessions } = await openBench({
  store: await openStore({ sqlite: file }),
  clock: { now: () => Date.now() },
});

async function issue(name: number): Promise<never> {
  for (let n = 0; ; n++) {
    const secret = `credential-${name}-${n}`;
    const credentials = [{ id: 'c1', secret: new Credential(secret) }];
    const { session, token } = await sessions.issue(newSession({ leaseId: `L${name}`, credentials }));
    process.stdout.write(`${JSON.stringify({ id: session.id, token: token.reveal(), secret })}\n`);
  }
}

await Promise.all([1, 2, 3].map(issue));
