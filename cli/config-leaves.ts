// The kinds of values that a configuration holds. Each says in its error what the value must be ("… must be <error>"),
// and none quotes the value. Where another room reads the same words, its reader decides and its refusal is passed on.

import { z } from 'zod';
import { parseDuration } from '../common/duration.ts';
import { PosternError } from '../common/errors.ts';
import { compileGlob } from '../common/glob.ts';
import { parseResource } from '../kubeguard/resources.ts';
import { effectiveVerbs, VERBS } from '../kubeguard/verbs.ts';
import { isLoopback, readListen } from './config-address.ts';

export const of = (rule: string) => ({ error: () => rule });
export const flag = () => z.boolean(of('true or false'));
export const count = (max: number) => {
  const rule = `a whole number from 1 to ${max}`;
  return z.int(of(rule)).min(1, of(rule)).max(max, of(rule));
};
/** A string that `read` turns into a value, or into `undefined` where it cannot be used. `pattern` tells editors. */
export const text = <T>(
  rule: string,
  read: (text: string) => T | undefined,
  kind: string,
  pattern?: string,
) =>
  z
    .string(of(rule))
    .meta({ 'x-kind': kind, ...(pattern === undefined ? {} : { pattern }) })
    .transform((value, context): T => {
      const result = read(value);
      if (result !== undefined) return result;
      context.issues.push({ code: 'custom', message: rule, input: value });
      return z.NEVER;
    });

export const plain = (rule: string, pattern: RegExp) => z.string(of(rule)).regex(pattern, of(rule));
export const path = () =>
  z
    .string(of('a path'))
    .min(1, of('a path'))
    .refine((value) => !value.includes('\0'), of('a path'))
    .meta({ 'x-kind': 'path' });
export const address = () =>
  text(
    'host:port, for example 127.0.0.1:8443 or "[::1]:8443" (port 0 lets the system choose, 0.0.0.0 is every address)',
    readListen,
    'address',
    '^(?:\\[[0-9A-Fa-f:.]+\\]|[^\\[\\]:]+):\\d{1,5}$',
  );
export const duration = (max: number) =>
  text(
    'a duration such as 90s, 15m, 12h or 30d',
    (value) => {
      try {
        const ms = parseDuration(value);
        return ms <= max ? ms : undefined;
      } catch {
        return undefined;
      }
    },
    'duration',
    '^(?:\\d+d)?(?:\\d+h)?(?:\\d+m)?(?:\\d+s)?(?:\\d+ms)?$',
  );

/** An origin: no path, query, fragment or user information. */
function origin(value: string, schemes: readonly string[]): URL | undefined {
  if (!URL.canParse(value) || /[\s\\@?#]/.test(value)) return undefined;
  const url = new URL(value);
  const bare = url.pathname === '/' && /^[a-z]+:\/\/[^/]+\/?$/i.test(value);
  return bare && schemes.includes(url.protocol) && url.hostname !== '' ? url : undefined;
}

export const advertise = () =>
  text(
    'an https:// origin that sandboxes can reach, for example https://guard.example.com:8443, with no path and no user',
    (value) => origin(value, ['https:'])?.origin,
    'url',
  )
    .nullable()
    .prefault(null);

export const upstreamUrl = () =>
  text(
    'an https:// origin such as https://github.com, with no path, user or query (http:// only for a loopback address)',
    (value) => {
      const url = origin(value, ['https:', 'http:']);
      return url && (url.protocol === 'https:' || isLoopback(url.hostname)) ? url.origin : undefined;
    },
    'url',
  );

/** A string that another room reads. The issue's `said` is that room's refusal without the key. */
const readBy = (rule: string, read: (text: string, key: string) => unknown) =>
  z.string(of(rule)).superRefine((value, context) => {
    try {
      read(value, 'here');
    } catch (error) {
      const said = error instanceof PosternError ? error.message.replace(/^here: /, '') : undefined;
      context.addIssue({ code: 'custom', message: rule, params: { said } });
    }
  });

export const pushRef = () =>
  readBy('a glob of full ref names such as refs/heads/**', (glob, key) =>
    compileGlob(glob, { globstar: true, key }),
  ).refine((glob) => glob.startsWith('refs/'), of('a glob of full ref names, beginning with refs/'));

export const pushOption = () =>
  plain(
    'a push option of up to 256 characters, in which * stands for any characters (no other wildcard)',
    /^[^?[\]{}\\\x00-\x1f\x7f]{1,256}$/,
  );

export const namespace = () =>
  readBy('a namespace, or a glob such as team-*', (glob, key) => compileGlob(glob, { key }));

export const verb = () =>
  readBy('a verb', (word, key) => effectiveVerbs([word], key)).meta({ enum: [...VERBS, '*'] });

export const resource = () => readBy('a resource as kubectl writes it', parseResource);

export const section = <T extends z.core.$ZodLooseShape>(shape: T) =>
  z.strictObject(shape, of('a block of keys')).prefault({} as never);

export const list = <T extends z.core.SomeType>(item: T) => z.array(item, of('a list'));
