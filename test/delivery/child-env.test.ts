import { expect, test } from 'vitest';
import { childEnvironment } from '../../delivery/child-env.ts';

test("what is Postern's stays, what is delivered wins, everything else goes on", () => {
  const own = {
    PATH: '/bin',
    POSTERN_SECRET_KEY: 'the key of the store',
    POSTERN_TOKEN_FILE: '/token',
    MY_KEY: 'the same under another name',
    KUBECONFIG: '/home/me/.kube/config',
    GIT_SSL_CAINFO: '/company.pem',
    ABSENT: undefined,
  };
  const delivered = { KUBECONFIG: '/lease/kubeconfig', POSTERN_KUBE_SESSION: 'ses_1' };
  expect(childEnvironment(own, delivered, ['MY_KEY'])).toEqual({
    PATH: '/bin',
    GIT_SSL_CAINFO: '/company.pem',
    ...delivered,
  });
});

test.each([
  [
    'no settings',
    {},
    { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'http.sslCAInfo', GIT_CONFIG_VALUE_0: '/ca' },
  ],
  [
    'a setting of the caller',
    { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'a.b', GIT_CONFIG_VALUE_0: 'c' },
    {
      GIT_CONFIG_COUNT: '2',
      GIT_CONFIG_KEY_0: 'a.b',
      GIT_CONFIG_VALUE_0: 'c',
      GIT_CONFIG_KEY_1: 'http.sslCAInfo',
      GIT_CONFIG_VALUE_1: '/ca',
    },
  ],
  [
    'a count that is none',
    { GIT_CONFIG_COUNT: 'x' },
    { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'http.sslCAInfo', GIT_CONFIG_VALUE_0: '/ca' },
  ],
])('GIT_SSL_CAINFO becomes a setting beside %s', (_what, own, expected) => {
  const env = childEnvironment({ GIT_SSL_CAINFO: '/ca', ...own }, { GIT_CONFIG_GLOBAL: '/lease/gitconfig' });
  expect(env).toEqual({ GIT_CONFIG_GLOBAL: '/lease/gitconfig', ...expected });
});

test('an empty GIT_SSL_CAINFO is none', () => {
  expect(childEnvironment({ GIT_SSL_CAINFO: '' }, { GIT_CONFIG_GLOBAL: '/g' })).toEqual({
    GIT_CONFIG_GLOBAL: '/g',
  });
});
