// `explain git|kube`: what a guard would decide for a session, without doing it. Exit 0 whatever the decision would be:
// nothing was refused, a question was answered.

import type { Explanation } from '../../sessions/guards.ts';
import type { Context } from '../command.ts';
import { facts, jsonText } from '../output.ts';

export async function explainGit(context: Context): Promise<number> {
  return explain(context, 'git', { path: context.args[0] ?? '' });
}

export async function explainKube(context: Context): Promise<number> {
  return explain(context, 'kube', {
    method: (context.args[0] ?? '').toUpperCase(),
    path: context.args[1] ?? '',
  });
}

async function explain(
  context: Context,
  guard: 'git' | 'kube',
  request: { method?: string; path: string },
): Promise<number> {
  const client = await context.client();
  const answer = await client.explain(context.flag('session') ?? '', { guard, ...request });
  context.out(context.json ? jsonText(answer) : describe(answer));
  return 0;
}

function describe({ decision, code, rule, reason, request }: Explanation): string {
  const parsed = Object.entries(request).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return facts([
    ['decision', decision],
    ['code', code],
    ['rule', rule],
    ['reason', reason],
    ['request', parsed.join(' ')],
  ]);
}
