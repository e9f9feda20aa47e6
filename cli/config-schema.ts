// Every key of the configuration, once: its shape, its default and what it means. The loader, the POSTERN_ overrides,
// the published JSON Schema and the reference page are all read off this schema, so that they cannot disagree.
// Objects are strict. A leaf's error says what the value must be ("… must be <error>") and never quotes the value.

import { z } from 'zod';
import { valueFromSchema } from '../common/value-from.ts';
import {
  address,
  advertise,
  count,
  duration,
  flag,
  list,
  namespace,
  of,
  path,
  plain,
  pushOption,
  pushRef,
  resource,
  section,
  text,
  upstreamUrl,
  verb,
} from './config-leaves.ts';

export const ROLES = ['admin', 'hub', 'operator', 'approver', 'requester', 'auditor'] as const;
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
const DAY = 86_400_000;

const tls = () =>
  z
    .strictObject(
      {
        certFile: path().meta({ description: 'PEM: the serving certificate, then its intermediates.' }),
        keyFile: path().meta({ description: 'PEM: its private key, without a passphrase.' }),
        caFile: path().optional().meta({
          description:
            'PEM: the authority that clients are told to trust; may be left out where `certFile` ends with it.',
        }),
      },
      of('{ certFile, keyFile, caFile }'),
    )
    .optional()
    .meta({ description: "The operator's own certificate instead of one from Postern's authority." });

const upstream = z.strictObject(
  {
    url: upstreamUrl().meta({ description: 'The origin of a forge.' }),
    caFile: path().optional().meta({ description: 'PEM: the only authorities trusted for this upstream.' }),
    username: plain('a user name without colon or white space', /^[\x21-\x39\x3b-\x7e]{1,255}$/)
      .optional()
      .meta({ description: 'User name sent with a token; `x-access-token` where absent.' }),
  },
  of('{ url, caFile, username }'),
);

const token = z.strictObject(
  {
    name: plain(
      'a name of 1 to 64 letters, digits, ".", "_", "@" and "-"',
      /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/,
    ).meta({
      description: 'The actor in the records.',
    }),
    role: z.enum(ROLES, of(`one of ${ROLES.join(', ')}`)).meta({ description: 'What the token may do.' }),
    sha256: plain(
      '64 hexadecimal digits: the SHA-256 of the token (printf %s "$TOKEN" | sha256sum)',
      /^[0-9a-fA-F]{64}$/,
    )
      .transform((hex) => hex.toLowerCase())
      .meta({ description: 'Hex SHA-256 of the token. The token itself is never written here.' }),
  },
  of('{ name, role, sha256 }'),
);

export const configSchema = z.strictObject(
  {
    dataDir: path().prefault('./var').meta({
      description:
        'Folder of the database, the control socket, `ca.pem` and the audit trail (made with mode 0700).',
    }),
    secretKey: valueFromSchema.optional().meta({
      description:
        'Where the passphrase of the store is. Absent: `POSTERN_SECRET_KEY` where that is set, else a key file made in `dataDir`.',
    }),
    store: z
      .strictObject(
        {
          sqlite: path()
            .optional()
            .meta({ description: 'File of the SQLite store. Default: `postern.db` in `dataDir`.' }),
          postgres: text(
            'a postgres:// URL',
            (value) =>
              URL.canParse(value) && /^postgres(?:ql)?:$/.test(new URL(value).protocol) ? value : undefined,
            'secret',
          )
            .optional()
            .meta({ description: 'URL of a PostgreSQL store, in place of `sqlite`.' }),
        },
        of('either sqlite or postgres'),
      )
      .refine(
        (store) => store.sqlite === undefined || store.postgres === undefined,
        of('either sqlite or postgres'),
      )
      .prefault({})
      .meta({ maxProperties: 1 }),
    git: section({
      enabled: flag().prefault(true).meta({ description: 'Whether the git guard runs.' }),
      listen: address().prefault('127.0.0.1:8443').meta({ description: 'Address of the git guard (TLS).' }),
      advertise: advertise().meta({
        description: 'What a sandbox connects to. Default: `https://` and the bound address.',
      }),
      upstreams: list(upstream)
        .prefault([{ url: 'https://github.com' }])
        .meta({ description: 'The only hosts that a session may name.' }),
      push: section({
        refs: list(pushRef())
          .prefault(['refs/heads/**'])
          .meta({ description: 'Refs that any session may push to; an empty list lets nothing be pushed.' }),
        allowDelete: flag().optional().meta({
          description:
            '`false`: no session may delete a ref, whatever it was granted. Absent or `true`: the session decides.',
        }),
        options: list(pushOption()).prefault(['*']).meta({
          description:
            'Push options that may pass, as whole texts; `*` stands for any characters. A bare `*` leaves out those that act beyond the refs: these need an entry that names them, such as `merge_request.*`. An empty list lets none pass.',
        }),
        maxRefs: count(1_000).prefault(16).meta({ description: 'Refs in one push.' }),
        maxPackBytes: count(Number.MAX_SAFE_INTEGER)
          .prefault(2_147_483_648)
          .meta({ description: 'Bytes of one push, pack and commands together.' }),
      }),
      tls: tls(),
    }),
    kube: section({
      enabled: flag().prefault(true).meta({ description: 'Whether the Kubernetes guard runs.' }),
      listen: address()
        .prefault('127.0.0.1:8444')
        .meta({ description: 'Address of the Kubernetes guard (TLS).' }),
      advertise: advertise().meta({
        description: 'What a sandbox connects to. Default: `https://` and the bound address.',
      }),
      ceiling: section({
        verbs: list(verb())
          .prefault([])
          .meta({ description: 'Verbs that no session may exceed; empty sets no ceiling.' }),
        namespaces: list(namespace())
          .prefault([])
          .meta({ description: 'Namespaces that no session may exceed; empty sets no ceiling.' }),
        resources: list(resource())
          .prefault([])
          .meta({ description: 'Resources that no session may exceed; empty sets no ceiling.' }),
      }),
      execPlugins: list(plain('an absolute path', /^\/[^\0]+$/))
        .prefault([])
        .meta({
          description:
            'Credential plugins that kubeconfigs in custody may run on this host, with whatever arguments they give.',
        }),
      tokenFiles: list(plain('an absolute path', /^\/[^\0]+$/))
        .prefault([])
        .meta({ description: 'Token files of this host that kubeconfigs in custody may read.' }),
      upstreams: list(upstreamUrl())
        .prefault([])
        .meta({ description: 'Origins of the API servers that a session may lead to; empty lets any.' }),
      maxBodyBytes: count(Number.MAX_SAFE_INTEGER)
        .prefault(3_145_728)
        .meta({ description: 'Bytes of one request body.' }),
      tls: tls(),
    }),
    control: section({
      socket: path().optional().meta({
        description:
          'Unix socket of the control API (mode 0600, role `admin`). Default: `control.sock` in `dataDir`.',
      }),
      listen: address()
        .nullable()
        .prefault(null)
        .meta({ description: 'TLS address of the control API; `null`: none.' }),
      tokens: list(token).prefault([]).meta({ description: 'Bearer tokens that the TLS address takes.' }),
      oidc: z
        .null(of('null: sign-in by OIDC is not served'))
        .prefault(null)
        .meta({ description: 'Reserved.' }),
      tls: tls(),
    }),
    ops: section({
      listen: address()
        .prefault('127.0.0.1:9464')
        .meta({ description: 'Address of `/livez`, `/readyz` and `/metrics` (plain HTTP).' }),
    }),
    sessions: section({
      ttl: duration(400 * DAY)
        .prefault('15m')
        .meta({ description: 'Life of a session that is not renewed.' }),
      maxTtl: duration(400 * DAY)
        .prefault('12h')
        .meta({ description: 'Longest life of a session, renewals included.' }),
      recheck: duration(DAY)
        .prefault('5s')
        .meta({ description: 'How long an answer of the store may be believed without asking it again.' }),
      maxConcurrent: count(100_000)
        .prefault(64)
        .meta({ description: 'Requests that one session may have under way.' }),
    }),
    audit: section({
      dir: path()
        .optional()
        .meta({ description: "Folder of the trail's segments. Default: `audit` in `dataDir`." }),
      onFailure: z.enum(['refuse', 'continue'], of('refuse or continue')).prefault('refuse').meta({
        description: 'When no record can be written: refuse requests, or serve and record the gap later.',
      }),
      syncReads: flag()
        .prefault(false)
        .meta({ description: 'Whether reads too wait until their record is on disk.' }),
      retention: duration(36_500 * DAY)
        .prefault('90d')
        .meta({ description: 'How long records are kept.' }),
    }),
    log: section({
      level: z
        .enum(LOG_LEVELS, of(`one of ${LOG_LEVELS.join(', ')}`))
        .prefault('info')
        .meta({ description: 'Least severe level that is logged.' }),
    }),
  },
  of('a block of keys'),
);

export type Settings = z.output<typeof configSchema>;
