import { breaking, type Mutation } from './mutation.ts';

const LEASE = ['test/broker/lease.test.ts'];
const LIFECYCLE = ['test/broker/lifecycle.test.ts'];
const APP = ['test/broker/github-app.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('broker/leases/create.ts', LEASE, [
    ['no lease lives longer than the limit', 'if (ttl <= limits.leaseTtl) return ttl', 'return ttl'],
    [
      'a lease ends with the first of its grants',
      'Math.min(wanted, ...usable.map(({ grant }) => grant.expiresAt ?? wanted))',
      'wanted + 0 * usable.length',
    ],
    ['a lease is for somebody', 'requester.executorId === undefined && requester', 'false && requester'],
    ['a lease is on the record', 'await recordLease(context, outcome, actor);', ''],
    [
      'a git guard that is down fails the lease before anything is opened',
      "deps.gitGuard === 'down' &&",
      'false &&',
    ],
    [
      'a Kubernetes guard that is down fails the lease before anything is opened',
      "deps.kubeGuard === 'down' &&",
      'false &&',
    ],
    [
      'a lease that never came to be leaves no session',
      "await context.deps.sessions.revokeLease(leaseId, 'the lease was not made');",
      '',
    ],
  ]),
  ...breaking('broker/leases/select.ts', LEASE, [
    [
      'a grant of several labels needs them all',
      'if (!selects(stored.grant.subject, requester)) continue;',
      '',
    ],
    ['a secret that is being deleted is not leased', '&& !stored.secret.deleting &&', '&&', LIFECYCLE],
    ['the narrower grant comes first', 'breadth(a.grant.subject) - breadth(b.grant.subject)', '0'],
  ]),
  ...breaking('broker/leases/build.ts', LEASE, [
    ['a grant is held against the rules of today', 'rules.checkConstraints(grant.constraints);', ''],
    [
      'a credential is cut down to its grant',
      'rules.minimise(payload, grant.constraints, stored.secret.name)',
      'Buffer.from(payload)',
    ],
    [
      'a grant that cannot be built is denied, and the rest goes on',
      'return { ...of.ref, reason: reasonOf(error) }',
      'throw error',
    ],
    [
      'a store that fails stops the lease',
      'STOPS_ALL.includes(error.code)) throw error',
      'false) throw error',
      APP,
    ],
  ]),
  ...breaking('broker/leases/assemble.ts', LEASE, [
    ['one variable is given by one grant', 'if (clash === undefined) {', 'if (true) {'],
  ]),
  ...breaking('broker/leases/commit.ts', LIFECYCLE, [
    ['a revocation while a lease is made is not missed', '...checks(delivered),', ''],
  ]),
  ...breaking('broker/leases/renew.ts', LIFECYCLE, [
    ['a lease that was not renewed in time is over', "input.leaseId, 'refused'", "input.leaseId, 'shown'"],
  ]),
  ...breaking('broker/leases/keep.ts', LIFECYCLE, [
    [
      'a renewal keeps what still stands and nothing else',
      'session.grants.filter((id) => standing.some(({ grant }) => grant.id === id))',
      'session.grants',
    ],
    ['a session that somebody ended stays ended', 'lost.push(...grants);', ''],
  ]),
  ...breaking('broker/leases/drop.ts', LIFECYCLE, [
    [
      'revoking a grant cuts it out of live sessions',
      'sessions.removeGrant(id, grantId, because)',
      'sessions.get(id)',
    ],
    [
      'what was delivered directly is outstanding',
      '[...new Set([...lease.outstanding, grantId])]',
      'lease.outstanding',
    ],
  ]),
  ...breaking('broker/leases/release.ts', LIFECYCLE, [
    [
      'a release takes the lease out of the store',
      'const lease = await remove(id);',
      'const lease = readLease((await store.get(SETS.leases, id))!);',
    ],
  ]),
  ...breaking('broker/leases/sweep.ts', LIFECYCLE, [
    ['the sweep ends what nobody renewed', '({ expiresAt }) => now >= expiresAt)', '() => false)'],
  ]),
  ...breaking('broker/leases/guards.ts', LEASE, [
    [
      'a session lives no longer than its lease',
      'ttl: until - context.now()',
      'ttl: until - context.now() + 60_000',
    ],
    [
      'a guard that refuses one credential costs that grant alone',
      'if (!refusesOne(error)) throw error;',
      'throw error;',
    ],
  ]),
];
