// /v1/openapi.json: OpenAPI 3.1, made from the routes' own schemas. Requests are described as they are sent (a
// duration is a string), answers as they arrive.

import { z } from 'zod';
import { PROBLEM_TYPE, problemSchema } from './problem.ts';
import { holders } from './roles.ts';
import type { Route } from './route.ts';

export interface OpenApi {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: { readonly [path: string]: { readonly [method: string]: object } };
  readonly components: object;
  readonly security: readonly object[];
}

export function openApi(routes: readonly Route[], version: string): OpenApi {
  const paths: { [path: string]: { [method: string]: object } } = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Postern control API',
      version,
      description:
        'Issue, renew and end the sessions of the guards. At the Unix socket the caller is admin; at the TLS address ' +
        'a bearer token names caller and role.',
    },
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: json(problemSchema, 'output') },
    },
    security: [{ token: [] }],
  };
}

function operation(route: Route): object {
  const { params, query, body, answer } = route.schemas;
  const parameters = [...parametersOf(params, 'path'), ...parametersOf(query, 'query')];
  return {
    summary: route.summary,
    description: `Roles: ${holders(route.right).join(', ')}.`,
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        required: !route.optionalBody,
        content: { 'application/json': { schema: json(body, 'input') } },
      },
    }),
    responses: {
      [route.status]: {
        description: 'Done',
        content: { 'application/json': { schema: json(answer, 'output') } },
      },
      default: {
        description: 'Refused or failed',
        content: { [PROBLEM_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    },
  };
}

interface ObjectSchema {
  readonly properties?: { readonly [name: string]: object };
  readonly required?: readonly string[];
}

function parametersOf(schema: z.ZodType | undefined, where: 'path' | 'query'): object[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = json(schema, 'input') as ObjectSchema;
  return Object.entries(properties).map(([name, type]) => ({
    name,
    in: where,
    required: required.includes(name),
    schema: type,
  }));
}

function json(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return rest;
}
