// The session, or the grant, is taken away while something is only on its way: nothing of it may still get through.
import type { Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { waitFor } from '../../support/wait.ts';
import { closeAll, type Field, openField, POD, SPDY, WEBSOCKET } from './kit.ts';

let field: Field;
beforeAll(async () => {
  field = await openField();
});
afterAll(closeAll);
beforeEach(() => field.upstream.clear());

const RULES = { verbs: ['*'], resources: ['*/*'], grantId: 'grant_1' };
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n';

interface Heard {
  text(): string;
  readonly closed: Promise<void>;
}
function listen(socket: Socket): Heard {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  return { text: () => text, closed: new Promise((resolve) => socket.once('close', () => resolve())) };
}

const ends = [
  ['revoked', (id: string) => field.held.bench.sessions.revoke(id, 'attack')],
  ['its grant removed', (id: string) => field.held.bench.sessions.removeGrant(id, 'grant_1', 'attack')],
] as const;

test.each(ends)('an exec that the cluster has not answered yet: %s, it never opens', async (_, end) => {
  const session = await field.issue(RULES);
  let late: Socket | undefined;
  field.upstream.answer((_received, socket) => {
    late = socket;
    return undefined;
  });
  const socket = await field.connect();
  const heard = listen(socket);
  socket.write(field.head(session, `POST ${session.prefix}${POD}/x/exec?command=id HTTP/1.1`, SPDY));
  await waitFor('the cluster to be asked', () => late !== undefined);
  await end(session.sessionId);
  expect(late?.destroyed || late?.write(SWITCHED)).toBeDefined();
  socket.write('INPUT OF THE EXEC');
  await heard.closed;
  expect(heard.text()).toMatch(/^HTTP\/1\.1 401 /);
  expect(field.upstream.received()).not.toContain('INPUT');
});

test.each(ends)('an exec that runs: %s, no byte goes either way when that has answered', async (_, end) => {
  const session = await field.issue(RULES);
  let cluster: Socket | undefined;
  field.upstream.answer((_received, socket) => {
    cluster = socket;
    return SWITCHED;
  });
  const socket = await field.connect();
  const heard = listen(socket);
  socket.write(field.head(session, `POST ${session.prefix}${POD}/x/exec?command=id HTTP/1.1`, SPDY));
  await waitFor('the 101', () => heard.text().includes('101 Switching'));
  await end(session.sessionId);
  const before = heard.text();
  socket.write('AFTER THE END');
  cluster?.write('ANSWER AFTER THE END');
  await heard.closed;
  await waitFor('the cluster to be left', () => cluster?.destroyed === true);
  expect(heard.text()).toBe(before);
  expect(field.upstream.received()).not.toContain('AFTER');
});

test.each(ends)(
  'a change whose body is still on its way: %s, the cluster gets no whole request',
  async (_, end) => {
    const session = await field.issue(RULES);
    field.upstream.answer(() => undefined);
    const socket = await field.connect();
    const heard = listen(socket);
    socket.write(
      `${field.head(session, `POST ${session.prefix}${POD} HTTP/1.1`, ['Content-Type: application/json', 'Content-Length: 20'])}{"first":`,
    );
    await waitFor('the head', () => field.upstream.received().includes('{"first":'));
    await end(session.sessionId);
    socket.write('"SECOND"    }');
    await heard.closed;
    expect(heard.text()).toMatch(/^HTTP\/1\.1 401 /);
    expect(field.upstream.received()).not.toContain('SECOND');
  },
);

test.each(ends)('a self review whose body is still on its way: %s, nothing is asked', async (_, end) => {
  const session = await field.issue(RULES);
  const body = '{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}';
  const line = `POST ${session.prefix}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1`;
  const socket = await field.connect();
  const heard = listen(socket);
  socket.write(
    field.head(session, line, ['Content-Type: application/json', `Content-Length: ${body.length}`]) +
      body.slice(0, 10),
  );
  await waitFor('it to be read', () => field.held.guard !== undefined);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await end(session.sessionId);
  socket.write(body.slice(10));
  await waitFor('an answer', () => heard.text().includes('\r\n\r\n'));
  socket.destroy();
  expect(heard.text()).toMatch(/^HTTP\/1\.1 401 /);
  expect(field.upstream.received()).toBe('');
});

test('a WebSocket exec whose cluster is in the middle of an endless frame ends all the same', async () => {
  const session = await field.issue(RULES);
  let cluster: Socket | undefined;
  field.upstream.answer((_received, socket) => {
    cluster = socket;
    return 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n';
  });
  const socket = await field.connect();
  const heard = listen(socket);
  socket.write(field.head(session, `GET ${session.prefix}${POD}/x/exec?command=id HTTP/1.1`, WEBSOCKET));
  await waitFor('the 101', () => /HTTP\/1\.1 \d/.test(heard.text()));
  expect(heard.text()).toContain('101 Switching');
  cluster?.write(Buffer.from([0x82, 127, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]));
  await waitFor('its beginning', () => heard.text().endsWith('\u0001\u0002\u0003'));
  socket.write('BEFORE');
  await waitFor('the input', () => field.upstream.received().includes('BEFORE'));
  const drip = setInterval(() => cluster?.write('z'), 20);
  const started = performance.now();
  await field.held.bench.sessions.revoke(session.sessionId, 'attack');
  expect(performance.now() - started).toBeLessThan(10_000);
  socket.write('AFTER');
  await heard.closed;
  clearInterval(drip);
  expect(field.upstream.received()).not.toContain('AFTER');
});

test('bytes behind the head of an upgrade that is refused are no second request', async () => {
  const session = await field.issue({ verbs: ['get', 'list', 'watch'], resources: ['pods'] });
  const second = field.head(session, `GET ${session.prefix}${POD} HTTP/1.1`);
  for (const line of [
    `GET ${session.prefix}${POD} HTTP/1.1`,
    `POST ${session.prefix}${POD}/x/exec HTTP/1.1`,
  ]) {
    const got = await field.raw(session, line, SPDY, second);
    expect([400, 403]).toContain(got.status);
    expect(got.text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  }
  expect(field.upstream.received()).toBe('');
});
