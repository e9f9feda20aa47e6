// The calls in docs/reference/api.md, made from the routes' own schemas.

import { z } from 'zod';
import { holders } from './roles.ts';
import type { Route } from './route.ts';
import { controlRoutes } from './routes.ts';

/** The routes as a reference needs them: described, never called, so that nothing has to stand behind them. */
const described = (): Route[] => controlRoutes({} as Parameters<typeof controlRoutes>[0]);

/** One section a call: what it does, takes and answers. */
export function apiSections(): string {
  return described().map(section).join('\n\n');
}

function section(route: Route): string {
  const lines = [`${route.summary}. Roles: ${holders(route.right).join(', ')}.`, ''];
  const sent = takes(route);
  if (sent) lines.push(`    ${sent}`);
  lines.push(`    → ${route.status} ${answers(route)}`);
  return [`### \`${route.method} ${route.path}\``, '', ...lines].join('\n');
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
  return [query, body].filter(Boolean).join(' ');
}

function answers({ schemas }: Route): string {
  return write(shapeOf(schemas.answer, 'output'));
}

function shapeOf(schema: z.ZodType, io: 'input' | 'output'): Shape {
  return z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Shape;
}

/** `{sessionId, credentials[{token?, upstream}]}`: names only, `?` behind what may be left out. */
function write(shape: Shape): string {
  const parts = Object.entries(shape.properties ?? {}).map(([name, member]) => {
    const inner = member.items ? `[${write(member.items)}]` : write(member);
    return `${name}${shape.required?.includes(name) ? '' : '?'}${inner}`;
  });
  return parts.length === 0 ? '' : `{${parts.join(', ')}}`;
}
