// Another authority, while sandboxes trust the one before: nobody who was given a bundle within the overlap is cut off, a
// restart in any place changes nothing, and a stolen key can be put out of use at once.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AuditEvent } from '../../audit/event.ts';
import { type AuthoritySource, openAuthority } from '../../certs/authority.ts';
import { manualClock } from '../../common/clock.ts';
import { silentLog } from '../../common/log.ts';
import { rotateKeys } from '../../keyring/rotate.ts';
import { handshake, openRoom, serve } from './support.ts';

const HOUR = 3_600_000;
let dir: string;
let room: Awaited<ReturnType<typeof openRoom>>;
let clock: ReturnType<typeof manualClock>;
let events: AuditEvent[];
let closing: (() => unknown)[];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'postern-certs-'));
  room = await openRoom();
  // So that what is issued an hour or two later is valid to a real client.
  clock = manualClock(Date.now() - 4 * HOUR);
  events = [];
  closing = [];
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  await room.close();
  rmSync(dir, { recursive: true });
});

async function open(): Promise<AuthoritySource> {
  const source = await openAuthority({
    ...room,
    names: ['guard.example.com'],
    dataDir: dir,
    clock,
    log: silentLog,
    overlap: HOUR,
    audit: {
      async append(event) {
        events.push(event);
      },
      health: () => ({ ok: true }),
      async close() {},
    },
  });
  closing.push(() => source.close());
  return source;
}

const count = (pem: string): number => pem.split('BEGIN CERTIFICATE').length - 1;
const published = (): string => readFileSync(join(dir, 'ca.pem'), 'utf8');

async function trusts(port: number, ca: string): Promise<boolean> {
  return handshake(port, { ca, servername: 'guard.example.com' }).then(
    (socket) => Boolean(socket.destroy()),
    () => false,
  );
}

async function listening(source: AuthoritySource): Promise<number> {
  const server = await serve(source);
  closing.push(() => server.close());
  return server.port;
}

describe('a rotation', () => {
  it('cuts nobody off: the new certificate is out first, then it signs, then the old one goes', async () => {
    const source = await open();
    const port = await listening(source);
    const before = source.caPem();
    const begun = await source.rotate('cli:me', false);
    expect(begun).toEqual({ takesOverAt: clock.now() + HOUR, underWay: false });
    const both = source.caPem();
    expect([count(both), both.startsWith(before), published()]).toEqual([2, true, both]);
    expect([await trusts(port, before), await trusts(port, both)]).toEqual([true, true]);

    clock.advance(HOUR - 1);
    await source.check();
    expect(await trusts(port, before)).toBe(true);
    clock.advance(1);
    await source.check();
    expect([await trusts(port, before), await trusts(port, both), count(source.caPem())]).toEqual([
      false,
      true,
      2,
    ]);

    clock.advance(HOUR);
    await source.check();
    const after = source.caPem();
    expect([count(after), before === after, published()]).toEqual([1, false, after]);
    expect([await trusts(port, both), await trusts(port, after)]).toEqual([true, true]);
    expect(events.filter(({ action }) => action === 'ca.rotated').map(({ actor }) => actor)).toEqual([
      'cli:me',
      undefined,
    ]);
  });

  it('is begun once, and said again tells how far it is', async () => {
    const source = await open();
    const { takesOverAt } = await source.rotate('cli:me', false);
    clock.advance(1000);
    expect(await source.rotate('cli:me', false)).toEqual({ takesOverAt, underWay: true });
    expect(count(source.caPem())).toBe(2);
  });

  it('goes on after a restart, also one after its time, and under a new key of the store', async () => {
    const first = await open();
    await first.rotate('cli:me', false);
    const both = first.caPem();
    first.close();
    const second = await open();
    expect(second.caPem()).toBe(both);
    second.close();
    await rotateKeys(room, { actor: 'me', newKey: true });
    clock.advance(2 * HOUR);
    const third = await open();
    const port = await listening(third);
    const [old = '', next = ''] = both.split(/(?<=-----END CERTIFICATE-----\n)/);
    expect([await trusts(port, old), await trusts(port, next)]).toEqual([false, true]);
    expect(await room.store.get('certs', 'ca-next')).toBeUndefined();
  });

  it('can be begun again while the old one still stays', async () => {
    const source = await open();
    await source.rotate('cli:me', false);
    clock.advance(HOUR);
    await source.check();
    await source.rotate('cli:me', false);
    expect(count(source.caPem())).toBe(3);
    clock.advance(HOUR - 1);
    await source.check();
    expect(count(source.caPem())).toBe(2);
    const both = source.caPem();
    clock.advance(1);
    await source.check();
    expect(await trusts(await listening(source), both)).toBe(true);
  });

  it('at once trusts no other than the new one, whatever was under way', async () => {
    const source = await open();
    const port = await listening(source);
    const before = source.caPem();
    await source.rotate('cli:me', false);
    const both = source.caPem();
    expect(await source.rotate('cli:me', true)).toEqual({ takesOverAt: clock.now(), underWay: false });
    const after = source.caPem();
    expect([count(after), published()]).toEqual([1, after]);
    expect([await trusts(port, before), await trusts(port, both), await trusts(port, after)]).toEqual([
      false,
      false,
      true,
    ]);
    expect(await room.store.get('certs', 'ca-next')).toBeUndefined();
  });
});
