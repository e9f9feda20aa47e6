// The real kubectl, of two generations and over both kinds of stream, straight against the test API server: what the
// same suite shows through the guard is worth as much as this shows.

import { tmpdir } from 'node:os';
import { createKubectl } from '../kube-suite/kubectl.ts';
import { oldKubectl } from '../kube-suite/old-kubectl.ts';
import { minorOf } from '../kube-suite/suite.ts';
import { bundledTarget, clusterTarget, EVERYTHING, PLAIN } from '../kube-suite/targets.ts';
import { describeKubeSuite } from '../kube-suite/vitest.ts';

const versionOf = (binary: string): Promise<number> =>
  minorOf(createKubectl({ binary, kubeconfig: '/dev/null', folder: tmpdir() }));

const old = await oldKubectl();
const [minor, oldMinor] = await Promise.all([versionOf('kubectl'), versionOf(old)]);
const websockets = (on: boolean): Record<string, string> => ({
  KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(on),
  KUBECTL_PORT_FORWARD_WEBSOCKETS: String(on),
});

describeKubeSuite(`kubectl 1.${minor} over WebSocket`, { has: EVERYTHING, minor }, () =>
  bundledTarget({ minor, env: websockets(true) }),
);
describeKubeSuite(
  `kubectl 1.${minor} over SPDY`,
  { has: EVERYTHING, minor, only: (step) => step.needs?.includes('streams') === true },
  () => bundledTarget({ minor, env: websockets(false) }),
);
describeKubeSuite(`kubectl 1.${oldMinor}`, { has: EVERYTHING, minor: oldMinor }, () =>
  bundledTarget({ binary: old, minor: oldMinor }),
);

const real = process.env.POSTERN_TEST_KUBECONFIG;
if (real)
  describeKubeSuite(
    `kubectl 1.${minor} and the cluster of POSTERN_TEST_KUBECONFIG`,
    { has: PLAIN, minor },
    () => clusterTarget(real, { minor }),
  );
