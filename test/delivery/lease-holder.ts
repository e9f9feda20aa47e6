// A process that holds a lease folder until it is killed: `node lease-holder.ts RECORDS BASE`.

import { Credential } from '../../common/credential.ts';
import { makeLeaseFolder, newLeaseFolderPath } from '../../delivery/lease-folder.ts';

const [, , records = '', base = ''] = process.argv;
const folder = await makeLeaseFolder(await newLeaseFolderPath(base), { dir: records });
await folder.write({ env: new Credential('export TOKEN=canary') });
process.stdout.write(`${folder.dir}\n`);
setInterval(() => {}, 1000);
