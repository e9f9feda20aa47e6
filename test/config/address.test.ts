import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  advertisedUrl,
  formatListen,
  isLoopback,
  isWildcard,
  listenConflict,
  readListen,
  servedNames,
} from '../../cli/config-address.ts';

const at = (text: string) => {
  const listen = readListen(text);
  if (!listen) throw new Error(`${text} is no address`);
  return listen;
};

describe('addresses', () => {
  it('are read back as they were written, whatever the host and port', () => {
    const host = fc.oneof(fc.ipV4(), fc.ipV6(), fc.domain());
    fc.assert(
      fc.property(host, fc.integer({ min: 0, max: 65535 }), (name, port) => {
        const listen = { host: name.toLowerCase(), port };
        expect(readListen(formatListen(listen))).toEqual(listen);
      }),
    );
  });

  it('of two listeners conflict where both cannot be bound', () => {
    const conflict = (a: string, b: string) => [listenConflict(at(a), at(b)), listenConflict(at(b), at(a))];
    expect(conflict('127.0.0.1:1', '127.0.0.1:1')).toEqual([true, true]);
    expect(conflict('0.0.0.0:1', '10.0.0.1:1')).toEqual([true, true]);
    expect(conflict('[::]:1', '127.0.0.1:1')).toEqual([true, true]);
    expect(conflict('localhost:1', '[::1]:1')).toEqual([true, true]);
    expect(conflict('127.0.0.1:1', '127.0.0.1:2')).toEqual([false, false]);
    expect(conflict('127.0.0.1:0', '127.0.0.1:0')).toEqual([false, false]);
    expect(conflict('10.0.0.1:1', '10.0.0.2:1')).toEqual([false, false]);
  });

  it('know loopback and every address from what only looks like it', () => {
    expect(['localhost', '127.0.0.1', '127.9.9.9', '::1', '[::1]'].every(isLoopback)).toBe(true);
    expect(
      ['127.0.0.1.example.com', '128.0.0.1', '::2', 'localhost.example.com', '0.0.0.0'].some(isLoopback),
    ).toBe(false);
    expect(['0.0.0.0', '::', '0:0:0:0:0:0:0:0'].every(isWildcard)).toBe(true);
    expect(['::1', '10.0.0.0', '127.0.0.1'].some(isWildcard)).toBe(false);
  });

  it.each([
    ['127.0.0.1:0', undefined, 'https://127.0.0.1:4001'],
    ['0.0.0.0:8443', undefined, 'https://127.0.0.1:4001'],
    ['[::]:8443', undefined, 'https://[::1]:4001'],
    ['guard:8443', undefined, 'https://guard:4001'],
    ['0.0.0.0:8443', 'https://guard.example.com', 'https://guard.example.com'],
    ['0.0.0.0:8443', 'https://guard.example.com:443/', 'https://guard.example.com'],
    ['0.0.0.0:0', 'https://guard.example.com:0', 'https://guard.example.com:4001'],
  ])('%s with %s is advertised as %s', (listen, advertise, url) => {
    expect(advertisedUrl({ listen: at(listen), advertise }, 4001)).toBe(url);
  });

  it('give the names of a certificate', () => {
    const git = { enabled: true, listen: at('0.0.0.0:1'), advertise: 'https://[2001:db8::7]:1' };
    const kube = { enabled: true, listen: at('10.0.0.1:1'), advertise: 'https://guard.example.com' };
    const off = { enabled: false, listen: at('10.0.0.2:1'), advertise: undefined };
    expect(servedNames(git, kube, off, { listen: undefined })).toEqual([
      '2001:db8::7',
      'guard.example.com',
      '10.0.0.1',
    ]);
  });
});
