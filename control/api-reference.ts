// The tables of docs/reference/api.md, made from the routes' own schemas.

import { z } from 'zod';
import { holders } from './roles.ts';
import type { Route } from './route.ts';
import { controlRoutes } from './routes.ts';

/** The routes as a reference needs them: described, never called, so that nothing has to stand behind them. */
const described = (): Route[] => controlRoutes({} as Parameters<typeof controlRoutes>[0]);

export function apiTable(): string {
  const rows = described().map(
    (route) =>
      `| \`${route.method} ${route.path}\` | ${route.summary} | ${takes(route)} | ${route.status} ${answers(route)} | ${holders(route.right).join(', ')} |`,
  );
  return ['| call | does | takes | answers | roles |', '| --- | --- | --- | --- | --- |', ...rows].join('\n');
}

interface Shape {
  readonly properties?: { readonly [name: string]: Shape };
  readonly required?: readonly string[];
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

function takes({ schemas, optionalBody }: Route): string {
  const query = schemas.query
    ? `?${Object.keys(shapeOf(schemas.query, 'input').properties ?? {}).join(', ')}`
    : '';
  const body = schemas.body ? `${write(shapeOf(schemas.body, 'input'))}${optionalBody ? '?' : ''}` : '';
  return code([query, body].filter(Boolean).join(' '));
}

function answers({ schemas }: Route): string {
  return code(write(shapeOf(schemas.answer, 'output')));
}

function shapeOf(schema: z.ZodType, io: 'input' | 'output'): Shape {
  return z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Shape;
}

/** `{sessionId, credentials[{token?, upstream}]}`: names only, `?` behind what may be left out. */
function write(shape: Shape): string {
  const parts = Object.entries(shape.properties ?? {}).map(([name, member]) => {
    const inner = member.items ? `[${write(member.items)}]` : write(member);
    return `${name}${shape.required?.includes(name) === false ? '?' : ''}${inner}`;
  });
  return parts.length === 0 ? '' : `{${parts.join(', ')}}`;
}

function code(text: string): string {
  return text === '' ? '' : `\`${text.replaceAll('|', '\\|')}\``;
}
