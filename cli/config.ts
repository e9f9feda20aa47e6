// The configuration: what the file says, what POSTERN_… variables lay over it, and defaults for the rest, as one
// frozen object in which every path is absolute and every duration is milliseconds. It starts here and goes through
// config-yaml (text → values), config-env (overrides), config-schema (shapes, defaults), config-rules (what two
// settings may not say together). Anything that cannot be used stops the start, all of it named at once; nothing that
// was asked for is switched off in silence.

import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Credential } from '../common/credential.ts';
import type { ValueFrom } from '../common/value-from.ts';
import type { Listen } from './config-address.ts';
import { overrideFromEnv, unknownVariables } from './config-env.ts';
import { finish } from './config-finish.ts';
import { ConfigError, type ConfigProblem, describeIssues } from './config-problems.ts';
import { configLeaves, defaultBlocks, knownKeys } from './config-reference.ts';
import { crossChecks } from './config-rules.ts';
import { configSchema, type LOG_LEVELS, type ROLES } from './config-schema.ts';
import { MAX_CONFIG_BYTES, readYaml } from './config-yaml.ts';

export type Role = (typeof ROLES)[number];
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The operator's own certificate. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string | undefined;
}

export interface UpstreamConfig {
  /** An origin, as `URL.origin` spells it: `https://github.com`, `https://ghe.example.com:8443`. */
  readonly url: string;
  readonly caFile: string | undefined;
  readonly username: string | undefined;
}

export interface ControlToken {
  readonly name: string;
  readonly role: Role;
  /** 64 lower-case hexadecimal digits. */
  readonly sha256: string;
}

export interface Config {
  /** The file that was read; `undefined`: there is none. */
  readonly file: string | undefined;
  readonly dataDir: string;
  /** `undefined`: the key file in `dataDir`. */
  readonly secretKey: ValueFrom | undefined;
  readonly store: { readonly sqlite: string } | { readonly postgres: Credential };
  readonly git: {
    readonly enabled: boolean;
    readonly listen: Listen;
    /** An https origin; `undefined`: the bound address. See `advertisedUrl` of config-address.ts. */
    readonly advertise: string | undefined;
    readonly upstreams: readonly UpstreamConfig[];
    readonly push: {
      /** Globs of full ref names. Empty: nothing can be pushed. */
      readonly refs: readonly string[];
      /** `false` is a ceiling; `undefined` and `true` leave it to the session. */
      readonly allowDelete: boolean | undefined;
      /** See gitproxy/push-options.ts. Empty: none passes. */
      readonly options: readonly string[];
      readonly maxRefs: number;
      readonly maxPackBytes: number;
    };
    readonly tls: TlsFiles | undefined;
  };
  readonly kube: {
    readonly enabled: boolean;
    readonly listen: Listen;
    readonly advertise: string | undefined;
    /** An empty list sets no ceiling. */
    readonly ceiling: {
      readonly verbs: readonly string[];
      readonly namespaces: readonly string[];
      readonly resources: readonly string[];
    };
    readonly execPlugins: readonly string[];
    readonly tokenFiles: readonly string[];
    /** Origins. Empty: any. */
    readonly upstreams: readonly string[];
    readonly maxBodyBytes: number;
    readonly tls: TlsFiles | undefined;
  };
  readonly control: {
    readonly socket: string;
    readonly listen: Listen | undefined;
    readonly tokens: readonly ControlToken[];
    readonly tls: TlsFiles | undefined;
  };
  readonly ops: { readonly listen: Listen };
  /** Milliseconds. */
  readonly sessions: {
    readonly ttl: number;
    readonly maxTtl: number;
    readonly recheck: number;
    readonly maxConcurrent: number;
  };
  readonly audit: {
    readonly dir: string;
    readonly onFailure: 'refuse' | 'continue';
    readonly syncReads: boolean;
    /** Milliseconds. */
    readonly retention: number;
  };
  readonly log: { readonly level: LogLevel };
  /** Nothing that stops the start, for doctor and the log: a variable that overrides nothing, a guard nobody can use. */
  readonly warnings: readonly ConfigProblem[];
}

export interface ConfigSource {
  /** Default: `postern.yaml` in `cwd` where it exists. */
  readonly file?: string;
  readonly env: { readonly [name: string]: string | undefined };
  readonly cwd: string;
}

/**
 * Relative paths are relative to the file's folder, where there is no file to `cwd`, in a variable always to `cwd`.
 * Files that the configuration names are not opened here: see config-files.ts.
 * @throws ConfigError (PosternError `invalid_config`) with every problem
 */
export function loadConfig(source: ConfigSource): Config {
  const { env, cwd } = source;
  const implied = join(cwd, 'postern.yaml');
  const file =
    source.file !== undefined ? resolve(cwd, source.file) : existsSync(implied) ? implied : undefined;
  const where = file ?? 'configuration';
  const text = file === undefined ? '' : readConfigFile(file);

  const leaves = configLeaves();
  const { settings, from } = overrideFromEnv(dropEmptyBlocks(readYaml(text, where)), leaves, env, cwd);
  const result = configSchema.safeParse(settings);
  if (!result.success) {
    throw new ConfigError(where, describeIssues(result.error.issues, settings, knownKeys(leaves), from));
  }
  const { config, used } = finish(result.data, {
    file,
    env,
    baseDir: file === undefined ? cwd : dirname(file),
  });
  const { problems, warnings } = crossChecks(config);
  if (problems.length > 0) throw new ConfigError(where, problems);
  return deepFreeze({ ...config, warnings: [...warnings, ...unknownVariables(env, leaves, used)] });
}

function readConfigFile(file: string): string {
  try {
    const { size } = statSync(file);
    if (size <= MAX_CONFIG_BYTES) return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const problem =
      code === 'ENOENT'
        ? 'the file does not exist'
        : code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
          ? 'the file is not UTF-8 text'
          : `the file cannot be read (${code ?? 'unknown error'})`;
    throw new ConfigError(file, [{ key: '', message: problem }]);
  }
  throw new ConfigError(file, [{ key: '', message: `the file is larger than ${MAX_CONFIG_BYTES} bytes` }]);
}

function dropEmptyBlocks(settings: unknown): unknown {
  if (settings === null) return {};
  for (const key of defaultBlocks()) {
    const path = key.split('.');
    const name = path.pop() ?? '';
    const parent = path.reduce<unknown>(
      (value, part) => (value !== null && typeof value === 'object' ? Reflect.get(value, part) : undefined),
      settings,
    );
    if (parent !== null && typeof parent === 'object' && Reflect.get(parent, name) === null)
      Reflect.deleteProperty(parent, name);
  }
  return settings;
}

function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}
