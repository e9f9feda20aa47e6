import { describe, expect, test } from 'vitest';
import { readAuthorization } from '../../gitproxy/basic.ts';

const encode = (text: string): string => Buffer.from(text, 'latin1').toString('base64');

describe('the Authorization of a request', () => {
  test('is a session id and its token', () => {
    expect(readAuthorization(`Basic ${encode('ses_1:a.b.c')}`)).toEqual({
      kind: 'basic',
      id: 'ses_1',
      token: 'a.b.c',
    });
    expect(readAuthorization(`basic  ${encode('ses_1:a:b')}`)).toMatchObject({ id: 'ses_1', token: 'a:b' });
  });

  test.each([undefined, ''])('is none: %j', (header) => {
    expect(readAuthorization(header)).toEqual({ kind: 'none' });
  });

  test.each([
    'Bearer a.b.c',
    'Basic',
    'Basic ',
    `Basic ${encode('no colon')}`,
    `Basic ${encode('ses_1')}`,
    `Basic ${encode('ses_1:a\0b')}`,
    `Basic ${encode('ses_1:a b')}`,
    `Basic ${encode('ses_1:\xff')}`,
    `Basic ${encode('ses_1:abc')}!`,
    `Basic ${encode('ses_1:ab').replace(/=+$/, '')}A`,
    // Bits that base64 leaves over: another spelling of the same pair.
    `Basic ${encode('ses_1:a').replace(/.==$/, 'R==')}`,
    `Basic ${encode('ses_1:ab').replace(/.=$/, 'J=')}`,
    `Basic ${encode('ses_1:abc')}, Basic ${encode('ses_2:abc')}`,
    `Basic ${encode(`ses_1:${'x'.repeat(9_000)}`)}`,
  ])('is not readable in one way: %s', (header) => {
    expect(readAuthorization(header)).toEqual({ kind: 'unreadable' });
  });
});
