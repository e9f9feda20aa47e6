import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDeployment } from '../../sessions/deployment.ts';
import { type Bench, closeBenches, enter, MINUTE, newSession, openBench, verdict } from './setup.ts';

let bench: Bench;
let other: Bench;
beforeEach(async () => {
  [bench, other] = await Promise.all([openBench(), openBench()]);
});
afterEach(closeBenches);

const part = (value: object | Buffer): string =>
  Buffer.isBuffer(value)
    ? value.toString('base64url')
    : Buffer.from(JSON.stringify(value)).toString('base64url');
const HEADER = { alg: 'EdDSA', typ: 'postern-session+jwt' };
const decode = (token: string, at: number) =>
  JSON.parse(Buffer.from(token.split('.')[at] ?? '', 'base64url').toString());

function signed(header: object, claims: object, key: KeyObject): string {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${part(sign(null, Buffer.from(text), key))}`;
}

async function issued() {
  const { session, token } = await bench.sessions.issue(newSession());
  const text = token.reveal();
  const deployment = await openDeployment(bench.store, bench.keyring);
  return { session, token: text, claims: decode(text, 1), deployment };
}

describe('a token', () => {
  it('names session, lease, guard, deployment and the hard end, and nothing else', async () => {
    const { session, token, claims, deployment } = await issued();
    expect(decode(token, 0)).toEqual(HEADER);
    expect(claims).toEqual({
      iss: deployment.id,
      aud: 'git',
      jti: session.id,
      sub: 'L1',
      iat: session.createdAt / 1000,
      exp: session.hardExpiresAt / 1000,
    });
    expect(token.length).toBeLessThan(1024);
    expect(await verdict(bench.sessions, token, { id: session.id })).toBe('ok');
  });

  it('is kept nowhere', async () => {
    const { token } = await issued();
    await enter(bench.sessions, token);
    for (const set of ['sessions', 'custody', 'keys', 'meta', 'session_counters']) {
      const text = JSON.stringify(await bench.store.list(set));
      for (const piece of token.split('.')) expect(text).not.toContain(piece);
    }
  });
});

describe('a forged token is refused:', () => {
  it('alg none', async () => {
    const { token, claims } = await issued();
    for (const alg of ['none', 'None', 'NONE', '']) {
      const text = `${part({ ...HEADER, alg })}.${part(claims)}.`;
      expect(await verdict(bench.sessions, text)).toBe('malformed');
      expect(await verdict(bench.sessions, text + token.split('.')[2])).toBe('wrong');
    }
  });

  it('HS256 with the public key as the secret', async () => {
    const { claims, deployment } = await issued();
    const forms = [
      deployment.publicKey.export({ type: 'spki', format: 'pem' }),
      deployment.publicKey.export({ type: 'spki', format: 'der' }),
      Buffer.from(String(deployment.publicKey.export({ format: 'jwk' }).x), 'base64url'),
    ];
    for (const secret of forms) {
      const text = `${part({ ...HEADER, alg: 'HS256' })}.${part(claims)}`;
      const mac = createHmac('sha256', secret).update(text).digest();
      expect(await verdict(bench.sessions, `${text}.${part(mac)}`)).toBe('wrong');
    }
  });

  it('signed by another deployment, or by a key that it brings along', async () => {
    const { claims, deployment } = await issued();
    const theirs = await other.sessions.issue(newSession());
    expect(await verdict(bench.sessions, theirs.token)).toBe('wrong');
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const jwk = publicKey.export({ format: 'jwk' });
    for (const header of [
      HEADER,
      { ...HEADER, jwk },
      { ...HEADER, kid: deployment.id },
      { ...HEADER, crit: ['exp'] },
    ])
      expect(await verdict(bench.sessions, signed(header, claims, privateKey))).toBe('wrong');
  });

  it('of another kind, though the signature is right', async () => {
    const { claims, deployment } = await issued();
    const key = deployment.privateKey;
    expect(await verdict(bench.sessions, signed(HEADER, claims, key))).toBe('ok');
    expect(await verdict(bench.sessions, signed({ alg: 'EdDSA' }, claims, key))).toBe('wrong');
    expect(await verdict(bench.sessions, signed({ ...HEADER, typ: 'JWT' }, claims, key))).toBe('wrong');
    for (const missing of ['iss', 'aud', 'jti', 'sub', 'iat', 'exp'])
      expect(await verdict(bench.sessions, signed(HEADER, { ...claims, [missing]: undefined }, key))).toMatch(
        /^wrong/,
      );
    for (const change of [
      { iss: 'dep_other' },
      { iss: [claims.iss] },
      { exp: 'never' },
      { jti: 7 },
      { sub: null },
      { nbf: claims.iat + 3600 },
    ])
      expect(await verdict(bench.sessions, signed(HEADER, { ...claims, ...change }, key))).toBe('wrong');
  });

  it('for the other guard, from either side', async () => {
    const git = await bench.sessions.issue(newSession({ guard: 'git' }));
    const kube = await bench.sessions.issue(newSession({ guard: 'kube' }));
    expect(await verdict(bench.sessions, git.token, { guard: 'kube' })).toBe('wrong_guard');
    expect(await verdict(bench.sessions, kube.token, { guard: 'git' })).toBe('wrong_guard');
    // Also once each was seen by its own guard.
    expect(await verdict(bench.sessions, git.token)).toBe('ok');
    expect(await verdict(bench.sessions, git.token, { guard: 'kube' })).toBe('wrong_guard');
  });

  it('with the id of another session beside it', async () => {
    const { token, session } = await issued();
    const second = await issued();
    expect(await enter(bench.sessions, token, { id: second.session.id })).toMatchObject({
      failure: 'mismatched',
      sessionId: session.id,
    });
    expect(await verdict(bench.sessions, token, { id: '' })).toBe('mismatched');
    expect(await verdict(bench.sessions, token, { id: session.id })).toBe('ok');
    expect(await enter(bench.sessions, token, { id: second.session.id })).toMatchObject({
      failure: 'mismatched',
    });
  });

  it('whose session and lease do not belong together, though the signature is right', async () => {
    const { claims, deployment } = await issued();
    const text = signed(HEADER, { ...claims, sub: 'L2' }, deployment.privateKey);
    expect(await verdict(bench.sessions, text)).toBe('mismatched');
  });

  it('changed in any part, or in a second spelling', async () => {
    const { token, claims } = await issued();
    const [head = '', , mac = ''] = token.split('.');
    expect(await verdict(bench.sessions, `${head}.${part({ ...claims, jti: 'ses_x' })}.${mac}`)).toBe(
      'wrong',
    );
    for (let at = 0; at < token.length; at += 17) {
      if (token[at] === '.') continue;
      const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      expect(await verdict(bench.sessions, changed)).toMatch(/^(wrong|malformed)$/);
    }
    const lastBits = token.slice(0, -1) + String.fromCharCode(token.charCodeAt(token.length - 1) + 1);
    for (const text of [
      lastBits,
      `${token}=`,
      ` ${token}`,
      `${token}\n`,
      `${token}.`,
      token.replace('.', '..'),
    ])
      expect(await verdict(bench.sessions, text)).toBe('malformed');
  });

  it('that is none at all', async () => {
    expect(await verdict(bench.sessions, '')).toBe('missing');
    for (const text of ['x', 'a.b', 'a.b.c.d', '...', 'ghp_something', '\0', 'a'.repeat(100_000), '💥.💥.💥'])
      expect(await verdict(bench.sessions, text)).toBe('malformed');
    expect(await verdict(bench.sessions, `${part(Buffer.from('{'))}.AAAA.AAAA`)).toBe('wrong');
  });
});

describe('a right token past its time is told so', () => {
  it('after the rolling end, after the hard end, and when nobody remembers the session', async () => {
    const { token, session } = await issued();
    bench.clock.advance(15 * MINUTE - 1);
    expect(await verdict(bench.sessions, token)).toBe('ok');
    bench.clock.advance(1);
    expect(await enter(bench.sessions, token)).toMatchObject({
      failure: 'expired',
      session: { id: session.id },
    });
    const fresh = await bench.replica(); // knows no token yet
    bench.clock.advance(24 * 60 * MINUTE);
    expect(await verdict(fresh, token)).toBe('expired');
    expect(await verdict(bench.sessions, token)).toBe('expired');
    await bench.store.commit([{ op: 'delete', set: 'sessions', id: session.id }]);
    expect(await enter(bench.sessions, token)).toEqual({
      ok: false,
      failure: 'expired',
      sessionId: session.id,
    });
  });

  it('but a forged one past its time is only wrong', async () => {
    const { claims, token, deployment } = await issued();
    bench.clock.advance(24 * 60 * MINUTE);
    const { privateKey } = generateKeyPairSync('ed25519');
    expect(await verdict(bench.sessions, signed(HEADER, claims, privateKey))).toBe('wrong');
    expect(
      await verdict(bench.sessions, signed(HEADER, { ...claims, iss: 'x' }, deployment.privateKey)),
    ).toBe('wrong');
    expect(await verdict(bench.sessions, token, { guard: 'kube' })).toBe('wrong_guard');
  });

  it('while one whose session nobody knows and whose end is not reached is unknown', async () => {
    const { token, session } = await issued();
    await bench.store.commit([{ op: 'delete', set: 'sessions', id: session.id }]);
    expect(await enter(bench.sessions, token)).toEqual({
      ok: false,
      failure: 'unknown',
      sessionId: session.id,
    });
  });
});
