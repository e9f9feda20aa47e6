// One call of the API: its schemas are what is checked, what is answered and what /v1/openapi.json says. Requests are
// checked strictly (an unknown member is refused, not ignored); an answer is cut to what its schema declares, so that
// a field that a room adds later can't slip out.

import { z } from 'zod';
import { invalid } from './problem.ts';
import type { Caller, Right } from './roles.ts';

export type Method = 'GET' | 'POST' | 'DELETE';

export interface RouteSpec<Params, Query, Body, Answer extends z.ZodType> {
  readonly method: Method;
  /** As OpenAPI writes it: `/v1/sessions/{id}`. */
  readonly path: string;
  readonly summary: string;
  readonly right: Right;
  readonly params?: z.ZodType<Params>;
  readonly query?: z.ZodType<Query>;
  readonly body?: z.ZodType<Body>;
  /** A body may be left out. */
  readonly optionalBody?: true;
  readonly status?: 200 | 201;
  readonly answer: Answer;
  run(input: { params: Params; query: Query; body: Body }, caller: Caller): Promise<z.input<Answer>>;
}

export interface RawInput {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

export interface Route {
  readonly method: Method;
  readonly path: string;
  readonly summary: string;
  readonly right: Right;
  readonly status: 200 | 201;
  readonly schemas: {
    readonly params?: z.ZodType;
    readonly query?: z.ZodType;
    readonly body?: z.ZodType;
    readonly answer: z.ZodType;
  };
  readonly optionalBody: boolean;
  handle(raw: RawInput, caller: Caller): Promise<unknown>;
}

export function route<Answer extends z.ZodType, Params = undefined, Query = undefined, Body = undefined>(
  spec: RouteSpec<Params, Query, Body, Answer>,
): Route {
  const { method, path, summary, right, params, query, body, answer } = spec;
  return {
    method,
    path,
    summary,
    right,
    status: spec.status ?? 200,
    schemas: { ...(params && { params }), ...(query && { query }), ...(body && { body }), answer },
    optionalBody: spec.optionalBody ?? false,
    async handle(raw, caller) {
      const input = {
        params: read(params, raw.params, 'path') as Params,
        query: read(query, raw.query, 'query') as Query,
        body: read(body, spec.optionalBody ? (raw.body ?? {}) : raw.body, '') as Body,
      };
      return answer.parse(await spec.run(input, caller));
    },
  };
}

/** A part that the route does not take must be empty: a `?ttl=` that is silently ignored is a surprise later. */
function read(schema: z.ZodType | undefined, value: unknown, where: string): unknown {
  const result = (schema ?? nothing).safeParse(schema ? value : (value ?? {}));
  if (!result.success) throw invalid(result.error, where);
  return result.data;
}

const nothing = z.strictObject({});
