// Reading: get in its forms, describe, explain, discovery, watches, what one may do.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Step } from './suite.ts';

export const readSteps: readonly Step[] = [
  {
    name: 'version names the server',
    async run({ kubectl }) {
      const version = JSON.parse(await kubectl.ok(['version', '-o', 'json']));
      assert.match(version.serverVersion.gitVersion, /^v1\.\d+/);
    },
  },
  {
    name: 'api-resources and api-versions come from discovery',
    async run({ kubectl }) {
      const names = (await kubectl.ok(['api-resources', '-o', 'name'])).split('\n');
      for (const name of ['pods', 'configmaps', 'deployments.apps', 'jobs.batch'])
        assert.ok(names.includes(name), name);
      assert.match(await kubectl.ok(['api-versions']), /^apps\/v1$/m);
    },
  },
  {
    name: 'explain describes fields',
    async run({ kubectl }) {
      assert.match(await kubectl.ok(['explain', 'pods.spec.containers']), /image\s+<string>/);
      assert.match(await kubectl.ok(['explain', 'deployments', '--recursive']), /replicas\s+<integer>/);
    },
  },
  {
    name: 'get namespaces and nodes',
    needs: ['cluster'],
    async run({ kubectl, namespace }) {
      assert.match(await kubectl.ok(['get', 'namespaces']), new RegExp(`^${namespace}\\s+Active`, 'm'));
      assert.match(await kubectl.ok(['get', 'nodes']), /Ready/);
      await kubectl.ok(['get', 'pods', '--all-namespaces']);
    },
  },
  {
    name: 'get in every form',
    async run({ kubectl, namespace }) {
      await kubectl.ok(['create', 'configmap', 'forms', '--from-literal=a=b']);
      try {
        assert.match(
          await kubectl.ok(['get', 'configmaps']),
          /^NAME\s+DATA\s+AGE$[\s\S]*^forms\s+1\s+\d+s$/m,
        );
        assert.match(await kubectl.ok(['get', 'cm', 'forms', '-o', 'wide']), /^forms/m);
        const object = JSON.parse(await kubectl.ok(['get', 'cm', 'forms', '-o', 'json']));
        assert.equal(object.metadata.namespace, namespace);
        assert.deepEqual(object.data, { a: 'b' });
        assert.match(await kubectl.ok(['get', 'cm', 'forms', '-o', 'yaml']), /^data:\n {2}a: b$/m);
        assert.equal(await kubectl.ok(['get', 'cm', 'forms', '-o', 'name']), 'configmap/forms\n');
        assert.equal(await kubectl.ok(['get', 'cm', 'forms', '-o', 'jsonpath={.data.a}']), 'b');
        const raw = await kubectl.ok(['get', '--raw', `/api/v1/namespaces/${namespace}/configmaps/forms`]);
        assert.equal(JSON.parse(raw).metadata.name, 'forms');
      } finally {
        await kubectl.ok(['delete', 'cm', 'forms']);
      }
    },
  },
  {
    name: 'get by label, by field and in chunks',
    async run({ kubectl }) {
      const names = Array.from({ length: 12 }, (_, i) => `chunk-${String(i).padStart(2, '0')}`);
      const items = names.map((name, i) => ({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name, labels: { suite: 'chunk', half: i < 6 ? 'low' : 'high' } },
      }));
      await kubectl.ok(['create', '-f', '-'], {
        input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items }),
      });
      try {
        const list = async (...args: string[]): Promise<string[]> =>
          (await kubectl.ok(['get', 'cm', '-o', 'name', ...args])).trim().split('\n');
        assert.equal((await list('-l', 'suite=chunk', '--chunk-size=5')).length, 12);
        assert.equal((await list('-l', 'suite=chunk,half in (low)')).length, 6);
        assert.equal((await list('-l', 'suite=chunk,half!=low')).length, 6);
        assert.deepEqual(await list('--field-selector', 'metadata.name=chunk-03'), ['configmap/chunk-03']);
        assert.match(await kubectl.ok(['get', 'cm', '-l', 'suite=chunk', '--chunk-size=5']), /chunk-11/);
      } finally {
        await kubectl.ok(['delete', 'cm', '-l', 'suite=chunk']);
      }
    },
  },
  {
    name: 'get -w prints changes as they come, after silence too',
    async run({ kubectl, idleSeconds }) {
      const watch = kubectl.start(['get', 'configmaps', '-w', '-l', 'suite=watch', '--no-headers']);
      try {
        await kubectl.ok(['create', 'configmap', 'watched', '--from-literal=a=b']);
        await kubectl.ok(['label', 'configmap', 'watched', 'suite=watch']);
        await watch.until(/^watched\s+1\s/m);
        await sleep(idleSeconds * 1000);
        await kubectl.ok(['patch', 'configmap', 'watched', '-p', '{"data":{"c":"d"}}']);
        await watch.until(/^watched\s+2\s/m);
      } finally {
        await watch.stop();
        await kubectl.run(['delete', 'configmap', 'watched']);
      }
    },
  },
  {
    name: 'describe',
    async run({ kubectl }) {
      await kubectl.ok(['create', 'configmap', 'described', '--from-literal=a=b']);
      try {
        assert.match(
          await kubectl.ok(['describe', 'configmap', 'described']),
          /^Name:\s+described$[\s\S]*^a:$/m,
        );
      } finally {
        await kubectl.ok(['delete', 'configmap', 'described']);
      }
    },
  },
  {
    name: 'auth can-i says yes to what the suite does',
    async run({ kubectl, namespace }) {
      assert.equal(
        (await kubectl.ok(['auth', 'can-i', 'create', 'configmaps', '-n', namespace])).trim(),
        'yes',
      );
      assert.match(
        await kubectl.ok(['auth', 'can-i', '--list', '-n', namespace]),
        /selfsubjectaccessreviews/,
      );
    },
  },
  {
    name: 'auth whoami',
    since: 28,
    async run({ kubectl }) {
      assert.match(await kubectl.ok(['auth', 'whoami']), /system:authenticated/);
    },
  },
  {
    name: 'what is not there is NotFound, and what no server has is told so',
    async run({ kubectl }) {
      const absent = await kubectl.run(['get', 'configmap', 'absent']);
      assert.equal(absent.code, 1);
      assert.equal(absent.stderr, 'Error from server (NotFound): configmaps "absent" not found\n');
      const unknown = await kubectl.run(['get', 'gadgets']);
      assert.match(unknown.stderr, /the server doesn't have a resource type "gadgets"/);
    },
  },
];
