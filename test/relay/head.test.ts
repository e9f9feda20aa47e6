import { describe, expect, test } from 'vitest';
import { inspectHead, ownHosts } from '../../relay/head.ts';

const isOwnHost = ownHosts(['https://guard.example:8443'], '0.0.0.0', 9000);
const rules = { isOwnHost, mayUpgrade: false };
const host = ['Host', 'guard.example:8443'];
const look = (rawHeaders: string[], url = '/', httpVersion = '1.1') =>
  inspectHead({ httpVersion, url, rawHeaders }, rules);

describe('a head that two parsers could read differently is refused', () => {
  test.each([
    ['two Hosts', [...host, ...host]],
    ['two Authorizations', [...host, 'Authorization', 'Basic a', 'authorization', 'Basic b']],
    ['two Content-Lengths', [...host, 'Content-Length', '1', 'Content-Length', '1']],
    ['two Transfer-Encodings', [...host, 'Transfer-Encoding', 'chunked', 'transfer-encoding', 'chunked']],
    ['two Content-Types', [...host, 'Content-Type', 'a/b', 'Content-Type', 'a/b']],
    ['two Content-Encodings', [...host, 'Content-Encoding', 'gzip', 'content-encoding', 'gzip']],
    ['two Git-Protocols', [...host, 'Git-Protocol', 'version=2', 'Git-Protocol', 'version=1']],
    ['both framings', [...host, 'Content-Length', '4', 'Transfer-Encoding', 'chunked']],
    ['a Transfer-Encoding other than chunked', [...host, 'Transfer-Encoding', 'gzip, chunked']],
    ['identity as a Transfer-Encoding', [...host, 'Transfer-Encoding', 'identity']],
    ['no Host', []],
    ['an empty Host', ['Host', '']],
    ['the Host of another guard', ['Host', 'guard.example:8444']],
    ['a Host with user information', ['Host', 'x@guard.example:8443']],
    ['a Host with a trailing dot', ['Host', 'guard.example.:8443']],
  ])('%s', (_what, headers) => {
    expect(look(headers)?.code).toBe('malformed_request');
  });

  test.each(['http://guard.example:8443/a', '*', 'guard.example:443', '', '\\a'])('the target %j', (url) => {
    expect(look(host, url)?.code).toBe('malformed_request');
  });

  test('HTTP/1.0, whose answers have no told end', () => {
    expect(look(host, '/', '1.0')?.code).toBe('malformed_request');
  });

  test('an Upgrade where none is served', () => {
    const asking = [...host, 'Connection', 'Upgrade', 'Upgrade', 'websocket'];
    expect(look(asking)?.code).toBe('upgrade_not_allowed');
    expect(
      inspectHead({ httpVersion: '1.1', url: '/', rawHeaders: asking }, { isOwnHost, mayUpgrade: true }),
    ).toBeUndefined();
  });
});

describe('the names of the guard', () => {
  test.each([
    ['guard.example:8443', true],
    ['GUARD.example:8443', true],
    ['127.0.0.1:9000', true],
    ['localhost:9000', true],
    ['[::1]:9000', true],
    ['guard.example', false],
    ['guard.example:9000', false],
    ['127.0.0.1:8443', false],
    ['127.0.0.1', false],
    ['0.0.0.0:9000', false],
  ])('%s: %s', (name, own) => {
    expect(look(['Host', name]) === undefined).toBe(own);
  });

  test('the port of https may be left out, and the listening address counts', () => {
    const own = ownHosts(['https://git.example'], '10.1.2.3', 443);
    expect(['git.example', 'git.example:443', '10.1.2.3', 'localhost'].every(own)).toBe(true);
    expect(['git.example:80', 'kube.example'].some(own)).toBe(false);
  });
});
