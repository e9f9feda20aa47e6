// What a secret is. The kind decides which constraints apply, what the payload looks like and how little of it a lease
// delivers; kinds/ has one file for each.

import { PosternError } from '../common/errors.ts';

export const KINDS = [
  'egress_proxy',
  'env',
  'github_app',
  'github_pat',
  'host_device',
  'kubeconfig',
  'local_repo',
  'registry',
] as const;

export type Kind = (typeof KINDS)[number];

export function isKind(text: string): text is Kind {
  return (KINDS as readonly string[]).includes(text);
}

/** @throws PosternError `invalid_input` */
export function parseKind(text: string, key = 'kind'): Kind {
  if (isKind(text)) return text;
  throw new PosternError(
    'invalid_input',
    `${key}: there is no such kind of secret; write one of ${KINDS.join(', ')}.`,
    {
      key,
    },
  );
}
