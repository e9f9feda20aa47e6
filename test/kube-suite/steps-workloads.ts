// Workloads: a deployment through its life, a job to its end.

import assert from 'node:assert/strict';
import type { Step } from './suite.ts';

export const workloadSteps: readonly Step[] = [
  {
    name: 'a deployment: create, rollout status, scale, set image, history, undo, restart, delete',
    async run({ kubectl, image }) {
      const status = (): Promise<string> =>
        kubectl.ok(['rollout', 'status', 'deployment/life', '--timeout=60s']);
      const read = async (path: string): Promise<string> =>
        kubectl.ok(['get', 'deployment', 'life', '-o', `jsonpath=${path}`]);
      await kubectl.ok(['create', 'deployment', 'life', `--image=${image}`, '--', 'sleep', '600']);
      try {
        assert.match(await status(), /successfully rolled out/);
        await kubectl.ok(['scale', 'deployment/life', '--replicas=3']);
        await kubectl.ok(['wait', '--for=condition=Available', 'deployment/life', '--timeout=60s']);
        assert.match(await status(), /successfully rolled out/);
        assert.equal(await read('{.status.readyReplicas}'), '3');
        const container = await read('{.spec.template.spec.containers[0].name}');
        await kubectl.ok(['set', 'image', 'deployment/life', `${container}=${image}:other`]);
        await status();
        assert.match(await kubectl.ok(['rollout', 'history', 'deployment/life']), /^2\s/m);
        await kubectl.ok(['rollout', 'undo', 'deployment/life']);
        await status();
        assert.equal(await read('{.spec.template.spec.containers[0].image}'), image);
        await kubectl.ok(['rollout', 'restart', 'deployment/life']);
        await status();
        assert.match(await kubectl.ok(['describe', 'deployment', 'life']), /3 desired \| 3 updated/);
        assert.match(await kubectl.ok(['get', 'all', '-l', 'app=life']), /replicaset\.apps\/life/);
      } finally {
        await kubectl.ok(['delete', 'deployment', 'life']);
      }
      await kubectl.run(['wait', '--for=delete', 'pod', '-l', 'app=life', '--timeout=60s']);
      assert.equal(await kubectl.ok(['get', 'pods', '-l', 'app=life', '-o', 'name']), '');
    },
  },
  {
    name: 'a job runs to its end',
    async run({ kubectl, image }) {
      await kubectl.ok(['create', 'job', 'once', `--image=${image}`, '--', 'true']);
      try {
        await kubectl.ok(['wait', '--for=condition=complete', 'job/once', '--timeout=60s']);
        assert.equal(await kubectl.ok(['get', 'job', 'once', '-o', 'jsonpath={.status.succeeded}']), '1');
      } finally {
        await kubectl.ok(['delete', 'job', 'once']);
      }
    },
  },
];
