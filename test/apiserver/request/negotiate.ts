// Which encoding and which shape an Accept header gets: JSON always, a Table or only the metadata for clients that ask
// so, protobuf and CBOR where the server has them.

import { notAcceptable } from '../objects/status.ts';

export interface Format {
  media: 'json' | 'protobuf' | 'cbor' | 'yaml';
  as: 'Table' | 'PartialObjectMetadata' | 'PartialObjectMetadataList' | undefined;
  /** The version of meta.k8s.io in which a Table or metadata is written. */
  version: 'v1' | 'v1beta1';
}

const MEDIA: Record<string, Format['media']> = {
  'application/json': 'json',
  'application/yaml': 'yaml',
  'application/vnd.kubernetes.protobuf': 'protobuf',
  'application/cbor': 'cbor',
  'application/*': 'json',
  '*/*': 'json',
};

export const CONTENT_TYPE: Record<Format['media'], string> = {
  json: 'application/json',
  yaml: 'application/yaml',
  protobuf: 'application/vnd.kubernetes.protobuf',
  cbor: 'application/cbor',
};

export interface AcceptClause {
  type: string;
  parameters: ReadonlyMap<string, string>;
}

/** In the order of preference: by q, then as written. */
export function parseAccept(header: string): AcceptClause[] {
  return header
    .split(',')
    .map((clause) => {
      const [type = '', ...rest] = clause.split(';').map((part) => part.trim());
      const parameters = new Map(
        rest.map((part) => {
          const [key = '', value = ''] = part.split('=', 2);
          return [key, value] as const;
        }),
      );
      return { type: type.toLowerCase(), parameters };
    })
    .filter((clause) => clause.type !== '')
    .map((clause, index) => ({ clause, index, q: Number(clause.parameters.get('q') ?? 1) }))
    .sort((a, b) => b.q - a.q || a.index - b.index)
    .map(({ clause }) => clause);
}

/**
 * @param served what this answer can be written in
 * @throws ApiError 406
 */
export function negotiate(accept: string | undefined, served: readonly Format['media'][]): Format {
  const plain: Format = { media: 'json', as: undefined, version: 'v1' };
  if (accept === undefined || accept.trim() === '') return plain;
  for (const { type, parameters } of parseAccept(accept)) {
    const media = MEDIA[type];
    if (!media || !served.includes(media)) continue;
    const as = parameters.get('as');
    if (as === undefined) return { ...plain, media };
    if (media === 'protobuf') continue;
    const version = parameters.get('v') ?? 'v1';
    if (parameters.get('g') !== 'meta.k8s.io' || (version !== 'v1' && version !== 'v1beta1')) continue;
    if (as === 'Table' || as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList')
      return { media, as, version };
  }
  throw notAcceptable(served.map((media) => CONTENT_TYPE[media]));
}
