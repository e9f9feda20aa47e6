// Variables. Delivered as they are, cut down to the keys that the grant lists. Payload: a JSON object of strings, lines
// of NAME=value, or one opaque value (a line, or PEM) that is named after the secret. What could be read in two of these ways is refused.

import { Credential } from '../../common/credential.ts';
import { bad, onlyFor } from '../constraints/constraints.ts';
import { direct, type KindRules } from './kind-rules.ts';
import { jsonObject, malformed, nothingLeft, textOf } from './payload.ts';

export const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const LINE = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]{0,127})=(.*)$/;
/** Postern's own; an env secret that set one would lead a workload around its guard. */
const RESERVED = /^(?:POSTERN_\w*|GIT_CONFIG\w*|KUBECONFIG|DOCKER_CONFIG|__proto__)$/;

export const env: KindRules<ReadonlyMap<string, string>> = {
  kind: 'env',
  constraints: ['envKeys'],
  inspect: (payload, secretName) => [...parseEnv(payload, secretName).keys()].sort(),
  // `DEBUG=true` is no credential, and hiding every "true" would make logs unreadable.
  credentials: (payload, secretName) =>
    [...parseEnv(payload, secretName).values()].filter((value) => value.length >= 8),
  checkConstraints(constraints) {
    onlyFor(constraints, ['envKeys'], 'set of variables');
    for (const key of constraints.envKeys ?? [])
      if (!ENV_NAME.test(key))
        throw bad('constraints.envKeys', `${JSON.stringify(key)} is not the name of a variable`);
  },
  minimise(payload, constraints, secretName) {
    const all = parseEnv(payload, secretName);
    const kept = new Map([...all].filter(([key]) => allowsEnvKey(constraints.envKeys, key)));
    if (kept.size === 0) throw nothingLeft('None of the variables that the grant lists is in the secret.');
    return kept;
  },
  materialise: (kept) =>
    direct({
      env: Object.fromEntries([...kept].map(([key, value]) => [key, new Credential(value)])),
      summary: `variables ${[...kept.keys()].sort().join(', ')}`,
    }),
};

export function allowsEnvKey(envKeys: readonly string[] | undefined, key: string): boolean {
  return !envKeys?.length || envKeys.includes(key);
}

/** The one variable of an opaque payload: `prod-api.key` is PROD_API_KEY. */
export function variableName(secretName: string): string {
  const name = secretName.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_');
  return /^\d/.test(name) ? `_${name}` : name;
}

function parseEnv(payload: Buffer, secretName: string): Map<string, string> {
  const text = textOf(payload, 'set of variables');
  const entries = text.trimStart().startsWith('{') ? fromJson(text) : fromText(text, secretName);
  if (entries.length === 0) throw malformed('set of variables', 'it is empty');
  const map = new Map(entries);
  if (map.size !== entries.length) throw malformed('set of variables', 'it names a variable twice');
  for (const [key, value] of map) {
    if (!ENV_NAME.test(key)) throw malformed('set of variables', 'a name in it is not that of a variable');
    if (RESERVED.test(key)) throw malformed('set of variables', `it sets ${key}, which Postern sets itself`);
    if (value === '' || value.includes('\0'))
      throw malformed('set of variables', `the value of ${key} is empty or has a null byte`);
  }
  return map;
}

function fromJson(text: string): [string, string][] {
  return Object.entries(jsonObject(text, 'set of variables')).map(([key, value]) => {
    if (typeof value !== 'string') throw malformed('set of variables', 'a value in it is not a string');
    return [key, value];
  });
}

function fromText(text: string, secretName: string): [string, string][] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.trimStart().startsWith('#'));
  if (!lines.every((line) => LINE.test(line))) {
    if (lines.length > 1 && lines.some((line) => LINE.test(line)) && !text.includes('-----BEGIN'))
      throw malformed('set of variables', 'some of its lines are NAME=value and some are not', JSON_REMEDY);
    // A key in PEM has lines and is one value; of any other text of several lines a variable is hardly meant.
    if (lines.length > 1 && !text.includes('-----BEGIN'))
      throw malformed('set of variables', 'it has several lines and none of them is NAME=value', JSON_REMEDY);
    return text.trim() === '' ? [] : [[variableName(secretName), text]];
  }
  // `QUJDRA==` is a variable with the value "=", and also what base64 looks like.
  if (lines.some((line) => /^[A-Za-z0-9]+=+$/.test(line)))
    throw malformed('set of variables', 'a line ends at its "=", which could also be base64', JSON_REMEDY);
  return lines.map((line) => {
    const [, key = '', value = ''] = LINE.exec(line) ?? [];
    return [key, unquote(value)];
  });
}

const JSON_REMEDY = 'Store it as a JSON object: {"NAME": "value"}.';

function unquote(value: string): string {
  const [, , inner] = /^(["'])(.*)\1$/.exec(value.trim()) ?? [];
  return inner === undefined || /["']/.test(inner) ? value : inner;
}
