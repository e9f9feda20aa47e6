// `explain git|kube`: what a guard would decide for a session, without doing it. Exit 0 whatever the decision would be:
// nothing was refused, a question was answered.

import { PosternError } from '../../common/errors.ts';
import type { ControlClient } from '../../control/client.ts';
import type { Explanation } from '../../sessions/guards.ts';
import type { Context } from '../command.ts';
import { facts, jsonText } from '../output.ts';

export async function explainGit(context: Context): Promise<number> {
  const refs = context.all('ref').map(readRef);
  const path = context.args[0] ?? '';
  if (!path.replace(/^\/+|\/+$/g, '').includes('/'))
    throw form(
      'PATH',
      'acme/tool, or what git would send (/acme/tool.git/info/refs?service=git-upload-pack)',
    );
  return explain(context, 'git', { path, ...(refs.length > 0 && { refs }) });
}

export async function explainKube(context: Context): Promise<number> {
  const [method = '', path = ''] = context.args;
  if (!path.startsWith('/'))
    throw form('PATH', 'what kubectl would send, such as /api/v1/namespaces/team-a/pods');
  return explain(context, 'kube', { method: method.toUpperCase(), path });
}

/** A question that no client could ask would be answered by the guard's first rule, which explains nothing. */
function form(name: string, expected: string): PosternError {
  return new PosternError('invalid_input', `${name} must be ${expected}.`, { key: name });
}

/** `refs/heads/x`, or with `create:`, `update:` or `delete:` in front; an update where nothing is said. */
function readRef(text: string): NonNullable<Question['refs']>[number] {
  const [, operation = 'update', ref = ''] = /^(?:(create|update|delete):)?(.*)$/s.exec(text) ?? [];
  return { ref, operation: operation as 'create' | 'update' | 'delete' };
}

type Question = Omit<Parameters<ControlClient['explain']>[1], 'guard'>;

async function explain(context: Context, guard: 'git' | 'kube', request: Question): Promise<number> {
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
