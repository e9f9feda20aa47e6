// `doctor`: what is misconfigured, each with its remedy. Exit 1 where something fails.

import type { Context } from '../command.ts';
import { ConfigError } from '../config-problems.ts';
import { type Check, fail } from '../doctor/check.ts';
import { localChecks } from '../doctor/local.ts';
import { remoteChecks } from '../doctor/remote.ts';
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
    return [...(await localChecks(config)), ...(await remoteChecks(config, await context.client()))];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ key, message }) => fail(key, message, 'Change it in the configuration.'));
  }
}

function describe({ name, state, message, remedy }: Check): string {
  return printable(`${state.padEnd(4)}  ${name}: ${message}${remedy ? ` → ${remedy}` : ''}`).concat('\n');
}
