// `doctor`: what is misconfigured, each with its remedy. Exit 1 where something fails.

import type { Context } from '../command.ts';
import { ConfigError } from '../config-problems.ts';
import { type Check, fail } from '../doctor/check.ts';
import { localChecks } from '../doctor/local.ts';
import { remoteChecks } from '../doctor/remote.ts';
import { storeChecks } from '../doctor/store.ts';
import { jsonText, printable } from '../output.ts';

export async function doctor(context: Context): Promise<number> {
  const checks = await examine(context);
  if (context.json) context.out(jsonText({ checks }));
  else for (const check of checks) context.out(describe(check));
  return checks.some((check) => check.state === 'fail') ? 1 : 0;
}

async function examine(context: Context): Promise<Check[]> {
  try {
    const config = await context.config();
    const local = await localChecks(config);
    // What is known to fail about the passphrase is told once.
    const known = local.some(({ name, state }) => name.startsWith('secretKey') && state === 'fail');
    return [
      ...local,
      ...(known ? [] : await storeChecks(config, context.env)),
      ...(await remoteChecks(config, await context.client())),
    ];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ key, message }) =>
      fail(key || error.where, message, REMEDY_TOLD.test(message) ? undefined : place(key)),
    );
  }
}

/** What many messages end with is a remedy already. */
const REMEDY_TOLD = /; (?:did you mean|it must be|use|put|write) /;

function place(key: string): string {
  if (key === '') return 'Mend the file.';
  return key.startsWith('POSTERN_') ? 'Change the variable.' : 'Change it in the configuration.';
}

function describe({ name, state, message, remedy }: Check): string {
  return printable(`${state.padEnd(4)}  ${name}: ${message}${remedy ? ` → ${remedy}` : ''}`).concat('\n');
}
