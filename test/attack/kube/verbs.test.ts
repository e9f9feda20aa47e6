// More than the verbs and the resources say: what one request does that another was judged for.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../../common/credential.ts';
import { ask, kubeconfigFor } from '../../kubeguard/harness.ts';
import { waitFor } from '../../support/wait.ts';
import { closeAll, type Field, openField, POD } from './kit.ts';

let field: Field;
beforeAll(async () => {
  field = await openField();
});
afterAll(closeAll);
beforeEach(() => {
  field.upstream.clear();
  field.upstream.answer(() => 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok');
});

// AllowCreateOnUpdate of the API server's strategies: a PUT of what is not there makes it, and RBAC asks for `create` then.
test.each([
  '/apis/coordination.k8s.io/v1/namespaces/team-a/leases/x',
  '/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings/x',
  '/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/roles/x',
  '/api/v1/namespaces/team-a/endpoints/x',
  '/api/v1/namespaces/team-a/limitranges/x',
  '/api/v1/namespaces/team-a/events/x',
])('who may update and not create cannot create by PUT: %s', async (path) => {
  const session = await field.issue({ verbs: ['get', 'update'] });
  const headers = { 'Content-Type': 'application/json' };
  const got = await ask(field.held, session, 'PUT', path, { body: '{}', headers });
  expect(got.status).toBe(403);
  expect(field.upstream.received()).toBe('');
});

describe('a grant that names namespaces/status beside *', () => {
  test.each([
    ['DELETE', ''],
    ['PUT', ''],
    ['PUT', '/finalize'],
  ])('does not open the Namespace itself: %s namespaces/team-a%s', async (method, end) => {
    const session = await field.issue({ verbs: ['*'], resources: ['*', 'namespaces/status'] });
    const got = await ask(field.held, session, method, `/api/v1/namespaces/team-a${end}`);
    expect(got.status).toBe(403);
    expect(field.upstream.received()).toBe('');
  });
});

test.each([
  ['DELETE', `${POD}/x`],
  ['POST', `${POD}/x/eviction`],
  ['PATCH', `${POD}/x`],
])('a change whose answer is lost is not asked for a second time: %s', async (method, path) => {
  const session = await field.issue({ verbs: ['*'] });
  let asked = 0;
  field.upstream.answer((_, socket) => {
    asked++;
    socket.end(); // done, and the connection is gone before it could say so
    return undefined;
  });
  expect((await ask(field.held, session, method, path)).status).toBe(502);
  await waitFor('the record', () => field.held.trail.of('kube.request_result').length > 0);
  expect(asked).toBe(1);
});

test('what explain says of a path without a context is what the guard does with it', async () => {
  const session = await field.held.guard.issue({
    leaseId: 'lease-1',
    actor: 'test',
    clusters: ['a', 'b'].map((secretName) => ({
      kubeconfig: new Credential(kubeconfigFor(field.upstream.origin)),
      contexts: ['test'],
      namespaces: ['team-a'],
      secretName,
    })),
  });
  const token = /token: (\S+)/.exec(session.kubeconfig.reveal())?.[1] ?? '';
  const got = await ask(field.held, { token, prefix: '' }, 'GET', POD);
  const said = await field.held.guard.explain(session.sessionId, { method: 'GET', target: POD });
  expect(said.decision).toBe(got.status === 200 ? 'allow' : 'deny');
});
