// The row of an installation token: which grant it is for, how narrow it is, when it ends. The token itself is sealed.

import { z } from 'zod';
import { PosternError } from '../../common/errors.ts';
import type { Envelope } from '../../keyring/envelope.ts';
import type { Row, Write } from '../../store/store.ts';
import { fromBody, toBody } from '../body.ts';
import { compact } from '../compact.ts';
import { SETS } from '../sets.ts';
import type { TokenScope } from './scope.ts';

export interface StoredToken {
  readonly grantId: string;
  readonly secretId: string;
  readonly secretName: string;
  readonly tokenId: string;
  readonly apiUrl: string;
  readonly scope: TokenScope;
  readonly mintedAt: number;
  readonly expiresAt: number;
  /** Whether live sessions have it in custody, where it took the place of another. */
  readonly applied: boolean;
  /** Moves with every lease that takes hold. */
  readonly uses: number;
  readonly rev: number;
  readonly sealed: Envelope;
}

const body = z.object({
  secretId: z.string(),
  secretName: z.string(),
  tokenId: z.string(),
  apiUrl: z.string(),
  scope: z.object({
    repositoryIds: z.array(z.number()).optional(),
    permissions: z.record(z.string(), z.string()).optional(),
  }),
  mintedAt: z.number(),
  expiresAt: z.number(),
  applied: z.boolean(),
  uses: z.number(),
});

export function readToken(row: Row): StoredToken {
  const { scope, ...rest } = fromBody(body, row, 'the installation token of');
  if (!row.sealed)
    throw new PosternError('sealed_data_tampered', 'The row of an installation token has no payload.');
  return { grantId: row.id, ...rest, scope: compact(scope), rev: row.rev, sealed: row.sealed };
}

export function tokenRow(token: StoredToken, expect: number): Write {
  const { grantId, rev: _, sealed, ...rest } = token;
  return {
    op: 'put',
    set: SETS.appTokens,
    expect,
    row: { id: grantId, body: toBody(rest), sealed, index: {} },
  };
}
