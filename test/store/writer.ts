// A program that commits pairs of rows and prints each id once its commit resolved. Started and killed by the tests.
// Arguments: database file, prefix of the ids, and how many (without end where absent).

import { openStore } from '../../store/open.ts';

const [file = '', prefix = '', count = 'Infinity'] = process.argv.slice(2);
const store = await openStore({ sqlite: file });

async function writer(name: number): Promise<void> {
  for (let n = 0; n < Number(count); n++) {
    const id = `${prefix}-${name}-${n}`;
    await store.commit([
      { op: 'put', set: 'left', row: { id, body: { fill: 'x'.repeat(500) }, index: { by: [prefix] } } },
      { op: 'put', set: 'right', row: { id, body: {}, index: {} } },
    ]);
    process.stdout.write(`${id}\n`);
  }
}

await Promise.all([1, 2, 3, 4].map(writer));
