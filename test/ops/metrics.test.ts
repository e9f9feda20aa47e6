import { describe, expect, it } from 'vitest';
import { CATALOGUE, GUARDS } from '../../ops/catalogue.ts';
import { createMetrics, type LiveSources } from '../../ops/metrics.ts';

/** `name{labels}` → value, histograms' buckets left out. */
async function series(registry: ReturnType<typeof createMetrics>): Promise<Map<string, number>> {
  const { body } = await registry.scrape();
  const lines = body
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#') && !line.includes('_bucket{'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

// As the contract writes them.
const CONTRACT = `postern_requests_total{guard,result} postern_denials_total{guard,code}
postern_bytes_total{guard,direction} postern_request_duration_seconds{guard}
postern_upstream_duration_seconds{guard} postern_sessions_live{guard} postern_streams_live{guard,kind}
postern_leases_live{kind} postern_audit_events_total{action} postern_audit_failures_total
postern_audit_last_write_timestamp_seconds postern_custody_open_failures_total{reason}
postern_revocation_seconds`.split(/\s+/);

describe('the metrics', () => {
  it('are those of the contract, with its labels and no others', async () => {
    const listed = Object.entries(CATALOGUE).map(([name, { labels }]) =>
      labels.length === 0 ? name : `${name}{${labels.join(',')}}`,
    );
    expect(listed.sort()).toEqual([...CONTRACT].sort());
    const { body } = await createMetrics({ leaseKinds: ['env'] }).scrape();
    const found = new Map<string, string>();
    for (const [, name = '', labels = ''] of body.matchAll(/^([a-z_]+)(?:\{([^}]*)\})? /gm)) {
      const plain = name.replace(/_(?:bucket|sum|count)$/, '');
      const names = [...labels.matchAll(/([a-z]+)="/g)]
        .map((match) => match[1])
        .filter((label) => label !== 'le');
      found.set(plain, names.length === 0 ? plain : `${plain}{${names.join(',')}}`);
    }
    expect([...found.values()].sort()).toEqual([...CONTRACT].sort());
  });

  it('exist from the start, with 0', async () => {
    const all = await series(createMetrics({ leaseKinds: ['env', 'kubeconfig'] }));
    expect([...all.values()].every((value) => value === 0)).toBe(true);
    for (const name of [
      'postern_requests_total{guard="kube",result="upstream_failed"}',
      'postern_denials_total{guard="git",code="ref_not_allowed"}',
      'postern_streams_live{guard="kube",kind="exec"}',
      'postern_sessions_live{guard="git"}',
      'postern_leases_live{kind="kubeconfig"}',
      'postern_audit_events_total{action="git.push_denied"}',
      'postern_custody_open_failures_total{reason="tampered"}',
      'postern_request_duration_seconds_count{guard="git"}',
      'postern_revocation_seconds_count',
    ])
      expect(all.get(name), name).toBe(0);
  });

  it('count what they are told', async () => {
    const registry = createMetrics();
    const { metrics } = registry;
    metrics.request('git', 'allowed', 0.2);
    metrics.request('git', 'allowed', 0.3);
    metrics.denial('kube', 'verb_not_allowed');
    metrics.bytes('git', 'down', 10);
    metrics.bytes('git', 'down', 5);
    metrics.bytes('git', 'down', 0);
    metrics.upstream('git', 0.01);
    metrics.auditEvent('git.fetch');
    metrics.auditFailure();
    metrics.auditWritten(1_700_000_000_500);
    metrics.custodyOpenFailure('wrong_key');
    metrics.revocation(0.004);
    const end = metrics.stream('git', 'fetch');
    metrics.stream('git', 'fetch');
    const all = await series(registry);
    const expected = {
      'postern_requests_total{guard="git",result="allowed"}': 2,
      'postern_request_duration_seconds_sum{guard="git"}': 0.5,
      'postern_denials_total{guard="kube",code="verb_not_allowed"}': 1,
      'postern_bytes_total{guard="git",direction="down"}': 15,
      'postern_upstream_duration_seconds_count{guard="git"}': 1,
      'postern_audit_events_total{action="git.fetch"}': 1,
      postern_audit_failures_total: 1,
      postern_audit_last_write_timestamp_seconds: 1_700_000_000.5,
      'postern_custody_open_failures_total{reason="wrong_key"}': 1,
      postern_revocation_seconds_count: 1,
      'postern_streams_live{guard="git",kind="fetch"}': 2,
    };
    for (const [name, value] of Object.entries(expected)) expect(all.get(name), name).toBe(value);
    end();
    end(); // ended twice counts once
    expect((await series(registry)).get('postern_streams_live{guard="git",kind="fetch"}')).toBe(1);
  });

  it('ask for what lives at each scrape; a source that fails has no value, and does not fail the scrape', async () => {
    let broken = false;
    const live: LiveSources = {
      sessions: (guard) => (guard === 'git' ? 3 : 0),
      leases: async () => {
        if (broken) throw new Error('the store is gone');
        return { env: 2, surprise: 9 };
      },
      leaseKinds: ['env', 'registry'],
    };
    const registry = createMetrics(live);
    const before = await series(registry);
    expect(GUARDS.map((guard) => before.get(`postern_sessions_live{guard="${guard}"}`))).toEqual([3, 0]);
    expect(before.get('postern_leases_live{kind="env"}')).toBe(2);
    expect(before.get('postern_leases_live{kind="registry"}')).toBe(0);
    expect(before.has('postern_leases_live{kind="surprise"}')).toBe(false);
    broken = true;
    const after = await series(registry);
    expect(after.has('postern_leases_live{kind="env"}')).toBe(false);
    expect(after.get('postern_sessions_live{guard="git"}')).toBe(3);
    broken = false;
    expect((await series(registry)).get('postern_leases_live{kind="env"}')).toBe(2);
  });
});
