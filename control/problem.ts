// Every error of the control API is one problem document (RFC 9457, application/problem+json). What the framework and
// the schemas report becomes a PosternError first, in words of our own: JSON.parse quotes the text that it could not
// read, and that text may be a credential.

import { z } from 'zod';
import { ERROR_CODES, PosternError } from '../common/errors.ts';

export const PROBLEM_TYPE = 'application/problem+json';

export const problemSchema = z
  .object({
    type: z.string().describe('urn:postern:error:CODE'),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z
      .enum(Object.keys(ERROR_CODES) as [keyof typeof ERROR_CODES])
      .describe('stable; docs/reference/errors.md'),
    key: z.string().optional().describe('the member, parameter or setting that is wrong'),
    remedy: z.string().optional(),
  })
  .describe('RFC 9457 problem details');

export type Problem = z.infer<typeof problemSchema>;

export function problemOf(error: PosternError): Problem {
  const { status, title } = ERROR_CODES[error.code];
  return {
    type: `urn:postern:error:${error.code}`,
    title,
    status,
    detail: error.message,
    code: error.code,
    ...(error.key === undefined ? {} : { key: error.key }),
    ...(error.remedy === undefined ? {} : { remedy: error.remedy }),
  };
}

/** What was thrown while a call was served, as the error that the caller is told. Anything unforeseen is `internal`. */
export function toPosternError(error: unknown): PosternError {
  if (error instanceof PosternError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new PosternError('unsupported_media_type', 'The body is not declared as JSON.', {
        key: 'Content-Type',
        remedy: 'Send Content-Type: application/json.',
      });
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new PosternError('too_large', 'The body is larger than this server takes.', { key: 'body' });
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new PosternError('invalid_input', 'The body is not as long as Content-Length says.', {
        key: 'body',
      });
    default:
      return new PosternError('internal', 'The call failed inside the server; its log says why.', {
        cause: error,
      });
  }
}

/** Names the first member that is wrong by its JSON path. No value is quoted: it may be a credential. */
export function invalid(error: z.ZodError, where: string): PosternError {
  const found = deepest(error.issues) ?? error.issues[0];
  const path = found ? jsonPath(found.path) : '';
  const key = [where, path].filter(Boolean).join('.').replaceAll('.[', '[');
  return new PosternError('invalid_input', `${key || 'body'}: ${found ? sentence(found) : 'not usable.'}`, {
    key: key || 'body',
    remedy: 'See /v1/openapi.json for what the call takes.',
  });
}

/** Of a union that nothing matched, the complaint of the branch that came furthest says most. */
function deepest(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue | undefined {
  const issue = issues[0];
  if (issue?.code !== 'invalid_union' || issue.errors.length === 0) return issue;
  const branches = issue.errors.map(deepest).filter((branch) => branch !== undefined);
  const best = branches.sort((a, b) => b.path.length - a.path.length)[0];
  return best ? { ...best, path: [...issue.path, ...best.path] } : issue;
}

function jsonPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, i) => (typeof part === 'number' ? `[${part}]` : `${i > 0 ? '.' : ''}${shown(String(part))}`))
    .join('');
}

/** People paste a token where a name belongs; a name that could be one is not repeated. */
function shown(name: string): string {
  return /^[\w.-]{1,40}$/.test(name) ? name : '(a name that is too odd to repeat)';
}

function sentence(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return `unknown member ${issue.keys.map(shown).join(', ')}.`;
  if (issue.code === 'invalid_type' && /received undefined$/.test(issue.message)) return 'is missing.';
  return `${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}.`;
}
