#!/usr/bin/env node
// The launcher: `postern …`, also where the machine's own node is too old to run TypeScript. It runs main.ts with this
// node if that will do, else with the node among the project's packages, passing signals and the exit status through.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { fileURLToPath, URL } from 'node:url';

const LEAST = 24;

if (Number(process.versions.node.split('.')[0]) >= LEAST) {
  // Warnings about a runtime's experiments and about what libraries call are for those who build Postern.
  process.noDeprecation = true;
  const { emitWarning } = process;
  process.emitWarning = (warning, ...rest) => {
    const type = typeof rest[0] === 'object' ? rest[0]?.type : rest[0];
    if (type !== 'ExperimentalWarning') emitWarning.call(process, warning, ...rest);
  };
  await import('./main.ts');
} else {
  const node = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
  if (!existsSync(node)) {
    process.stderr.write(
      `postern: node ${process.versions.node} is too old: it takes ${LEAST} or later. Run npm ci in the checkout.\n`,
    );
    process.exit(1);
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'])
    process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`postern: ${error.message}\n`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : (code ?? 1)));
}
