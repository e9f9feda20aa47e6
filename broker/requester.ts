// Whom a lease is for: one executor that works for one project. Labels are the executor's own and are what `label:`
// grants look at; the run and the task go to the records and open nothing, because nobody could see or revoke that.

import { posix } from 'node:path';
import { PosternError } from '../common/errors.ts';
import { compact } from './compact.ts';
import { isPlain } from './text.ts';

export interface Requester {
  readonly executorId?: string;
  /** In the form of `normaliseProjectId`. */
  readonly projectId?: string;
  readonly labels: { readonly [label: string]: string };
  readonly runId?: string;
  readonly taskId?: string;
}

export interface RequesterInput {
  readonly executorId?: string | undefined;
  readonly projectId?: string | undefined;
  readonly labels?: { readonly [label: string]: string } | undefined;
  readonly runId?: string | undefined;
  readonly taskId?: string | undefined;
}

const MAX = 1024;
export const LABEL_KEY = /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$/;
export const LABEL_VALUE = /^[A-Za-z0-9](?:[A-Za-z0-9._:/@+-]{0,254}[A-Za-z0-9])?$/;

/**
 * One spelling of a project: an absolute path without double, dot or trailing slashes (`/srv/app/` is `/srv/app`),
 * anything else as it is. What follows is compared whole, so `/srv/app-staging` is another project.
 */
export function normaliseProjectId(id: string): string {
  const trimmed = id.trim();
  if (!trimmed.startsWith('/')) return trimmed;
  const path = posix.normalize(trimmed.replace(/^\/+/, '/'));
  return path.length > 1 ? path.replace(/\/$/, '') : path;
}

/** @throws PosternError `invalid_input` naming the member */
export function readRequester(input: RequesterInput): Requester {
  const labels = Object.entries(input.labels ?? {});
  if (labels.length > 64) throw bad('labels', 'there are more than 64');
  for (const [key, value] of labels)
    if (!LABEL_KEY.test(key) || !LABEL_VALUE.test(value))
      throw bad('labels', 'a label must be written key=value with letters, digits and . _ / - in between');
  return compact({
    executorId: word(input.executorId, 'executorId'),
    projectId: word(input.projectId && normaliseProjectId(input.projectId), 'projectId'),
    labels: Object.fromEntries(labels),
    runId: word(input.runId, 'runId'),
    taskId: word(input.taskId, 'taskId'),
  });
}

function word(value: string | undefined, key: string): string | undefined {
  const text = value?.trim();
  if (text === undefined || text === '') return undefined;
  if (!isPlain(text, MAX)) throw bad(key, `it must be at most ${MAX} printable characters`);
  // A requester is one thing. A star would otherwise be equal to the star of a grant for everybody.
  if (text === '*') throw bad(key, 'it must name one, not *');
  return text;
}

function bad(key: string, problem: string): PosternError {
  return new PosternError('invalid_input', `${key}: ${problem}.`, { key });
}
