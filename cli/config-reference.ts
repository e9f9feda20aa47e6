// What the schema says, in the forms that others need: the published JSON Schema, the list of keys with their
// POSTERN_ names, and the table of the reference page.

import { z } from 'zod';
import { configSchema } from './config-schema.ts';

type JsonSchema = { [key: string]: unknown };

export type LeafType = 'string' | 'integer' | 'boolean' | 'list' | 'block';

export interface Leaf {
  /** `git.push.maxRefs`; `git.upstreams[].url` within a list. */
  readonly key: string;
  readonly type: LeafType;
  /** path, address, duration, url, secret; absent for what the type says already. */
  readonly kind: string | undefined;
  readonly values: readonly string[] | undefined;
  readonly nullable: boolean;
  readonly default: unknown;
  readonly description: string;
  /** The variable that overrides it; absent within lists, and for lists. */
  readonly env: string | undefined;
}

function raw(): JsonSchema {
  return z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
}

/** Draft 2020-12, as published in docs/reference/postern.schema.json. */
export function configJsonSchema(): JsonSchema {
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => key !== 'x-kind')
        .map(([key, part]) => [key, strip(part)]),
    );
  };
  const { $schema, ...rest } = strip(raw()) as JsonSchema;
  return { $schema, title: 'Postern configuration', ...rest };
}

/** The names of all keys, blocks included, for suggestions. */
export function knownKeys(leaves: readonly Leaf[]): string[] {
  const keys = leaves.flatMap(({ key }) => {
    const parts = key.split('.');
    return parts.map((_, i) => parts.slice(0, i + 1).join('.'));
  });
  return [...new Set(keys)];
}

/** Blocks in which every key has a default: `kube:` with nothing under it says what leaving it out says. */
export function defaultBlocks(): string[] {
  const blocks: string[] = [];
  const visit = (schema: JsonSchema, key: string): void => {
    for (const [name, part] of Object.entries((schema.properties ?? {}) as { [name: string]: JsonSchema })) {
      const path = key === '' ? name : `${key}.${name}`;
      if (part.type === 'object' && part.default !== undefined) blocks.push(path);
      visit(part, path);
    }
  };
  visit(raw(), '');
  return blocks;
}

/** `git.push.maxRefs` is `POSTERN_GIT_PUSH_MAX_REFS`. */
export function envName(key: string): string {
  return `POSTERN_${key
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll('.', '_')
    .toUpperCase()}`;
}

/** Every key that holds a value, in the order of the schema. */
export function configLeaves(): Leaf[] {
  const leaves: Leaf[] = [];
  walk(raw(), '', leaves);
  return leaves;
}

function walk(schema: JsonSchema, key: string, leaves: Leaf[]): void {
  const properties = schema.properties as { [name: string]: JsonSchema } | undefined;
  if (properties) {
    for (const [name, part] of Object.entries(properties))
      walk(part, key === '' ? name : `${key}.${name}`, leaves);
    return;
  }
  const shapes = (schema.anyOf as JsonSchema[] | undefined) ?? [schema];
  const types = shapes.flatMap((shape) => shape.type ?? []) as string[];
  const type = types.find((name) => name !== 'null') ?? 'block';
  const item = schema.items as JsonSchema | undefined;
  leaves.push({
    key,
    type: type === 'array' ? 'list' : (type as LeafType),
    kind: (schema['x-kind'] ?? shapes[0]?.['x-kind']) as string | undefined,
    values: (schema.enum ?? item?.enum) as readonly string[] | undefined,
    nullable: types.includes('null'),
    default: schema.default,
    description: String(schema.description ?? ''),
    env: type === 'array' || type === 'block' || key.includes('[]') ? undefined : envName(key),
  });
  if (item?.properties) walk(item, `${key}[]`, leaves);
}

/** The table of docs/reference/configuration.md. */
export function configTable(): string {
  const rows = configLeaves().map((leaf) => {
    const type =
      leaf.values && leaf.type === 'string'
        ? leaf.values.map((v) => `\`${v}\``).join(' ')
        : (leaf.kind ?? leaf.type);
    const cells = [
      `\`${leaf.key}\``,
      leaf.nullable ? `${type} or \`null\`` : type,
      leaf.default === undefined ? '' : `\`${JSON.stringify(leaf.default).replace(/^"|"$/g, '')}\``,
      leaf.env === undefined ? '' : `\`${leaf.env}\``,
      leaf.description,
    ];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
  return ['| key | value | default | variable | meaning |', '| --- | --- | --- | --- | --- |', ...rows].join(
    '\n',
  );
}
