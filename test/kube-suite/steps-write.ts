// Writing: create, apply both ways, patches, edit, replace, diff, dry runs, delete.

import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Kubectl } from './kubectl.ts';
import type { Step } from './suite.ts';

function configMap(name: string, data: Record<string, string>, more: object = {}): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...more }, data });
}

/** Runs with a config map in place, and takes it away. */
async function withMap(kubectl: Kubectl, name: string, body: () => Promise<void>): Promise<void> {
  await kubectl.ok(['create', 'configmap', name, '--from-literal=a=b']);
  try {
    await body();
  } finally {
    await kubectl.run(['delete', 'configmap', name, '--ignore-not-found']);
  }
}

const dataOf = async (kubectl: Kubectl, name: string): Promise<Record<string, string>> =>
  JSON.parse(await kubectl.ok(['get', 'configmap', name, '-o', 'json'])).data;

export const writeSteps: readonly Step[] = [
  {
    name: 'create, create again, delete',
    async run({ kubectl }) {
      await withMap(kubectl, 'made', async () => {
        const again = await kubectl.run(['create', 'configmap', 'made', '--from-literal=a=b']);
        assert.equal(again.code, 1);
        assert.match(again.stderr, /\(AlreadyExists\)|already exists/);
        assert.match(await kubectl.ok(['delete', 'configmap', 'made']), /configmap "made" deleted/);
        assert.equal((await kubectl.run(['get', 'configmap', 'made'])).code, 1);
      });
    },
  },
  {
    name: 'apply in the client: created, unchanged, configured, fields removed',
    async run({ kubectl }) {
      const apply = (data: Record<string, string>): Promise<string> =>
        kubectl.ok(['apply', '-f', '-'], { input: configMap('applied', data) });
      try {
        assert.equal(await apply({ a: '1', b: '2' }), 'configmap/applied created\n');
        assert.equal(await apply({ a: '1', b: '2' }), 'configmap/applied unchanged\n');
        assert.equal(await apply({ a: '3' }), 'configmap/applied configured\n');
        assert.deepEqual(await dataOf(kubectl, 'applied'), { a: '3' });
      } finally {
        await kubectl.run(['delete', 'configmap', 'applied', '--ignore-not-found']);
      }
    },
  },
  {
    name: 'apply in the server: owners, conflicts, force',
    async run({ kubectl }) {
      const apply = (manager: string, value: string, ...more: string[]): ReturnType<Kubectl['run']> =>
        kubectl.run(['apply', '--server-side', `--field-manager=${manager}`, '-f', '-', ...more], {
          input: configMap('shared', { [manager]: 'own', both: value }),
        });
      try {
        assert.equal((await apply('one', 'x')).stdout, 'configmap/shared serverside-applied\n');
        assert.equal((await apply('two', 'x')).code, 0);
        const clash = await apply('two', 'y');
        assert.equal(clash.code, 1);
        assert.match(clash.stderr, /conflict with "one".*: ?\.data\.both/s);
        assert.equal((await apply('two', 'y', '--force-conflicts')).code, 0);
        assert.deepEqual(await dataOf(kubectl, 'shared'), { one: 'own', two: 'own', both: 'y' });
      } finally {
        await kubectl.run(['delete', 'configmap', 'shared', '--ignore-not-found']);
      }
    },
  },
  {
    name: 'patch: strategic, merge, JSON',
    async run({ kubectl }) {
      await withMap(kubectl, 'patched', async () => {
        await kubectl.ok(['patch', 'configmap', 'patched', '-p', '{"data":{"c":"d"}}']);
        await kubectl.ok(['patch', 'configmap', 'patched', '--type=merge', '-p', '{"data":{"a":null}}']);
        const operation = '[{"op":"add","path":"/data/e~1f","value":"g"}]';
        const odd = await kubectl.run(['patch', 'configmap', 'patched', '--type=json', '-p', operation]);
        assert.equal(odd.code, 1); // a key with a slash is Invalid
        await kubectl.ok(['patch', 'configmap', 'patched', '--type=json', '-p', operation.replace('~1', '')]);
        assert.deepEqual(await dataOf(kubectl, 'patched'), { c: 'd', ef: 'g' });
      });
    },
  },
  {
    name: 'edit with an editor',
    async run({ kubectl, folder }) {
      const editor = join(folder, 'editor.sh');
      writeFileSync(editor, '#!/bin/sh\nsed -i "s/  a: b/  a: edited/" "$1"\n');
      chmodSync(editor, 0o755);
      await withMap(kubectl, 'edited', async () => {
        await kubectl.ok(['edit', 'configmap', 'edited'], { env: { EDITOR: editor, KUBE_EDITOR: editor } });
        assert.deepEqual(await dataOf(kubectl, 'edited'), { a: 'edited' });
      });
    },
  },
  {
    name: 'replace with an old resourceVersion is a Conflict',
    async run({ kubectl }) {
      await withMap(kubectl, 'raced', async () => {
        const old = await kubectl.ok(['get', 'configmap', 'raced', '-o', 'json']);
        await kubectl.ok(['patch', 'configmap', 'raced', '-p', '{"data":{"c":"d"}}']);
        const late = await kubectl.run(['replace', '-f', '-'], { input: old });
        assert.equal(late.code, 1);
        assert.match(late.stderr, /\(Conflict\).*the object has been modified/);
      });
    },
  },
  {
    name: 'diff tells by its exit status',
    async run({ kubectl }) {
      const input = configMap('compared', { a: 'b' });
      await kubectl.ok(['apply', '-f', '-'], { input });
      try {
        assert.equal((await kubectl.run(['diff', '-f', '-'], { input })).code, 0);
        const changed = await kubectl.run(['diff', '-f', '-'], { input: configMap('compared', { a: 'c' }) });
        assert.equal(changed.code, 1);
        assert.match(changed.stdout, /^-\s+a: b$[\s\S]*^\+\s+a: c$/m);
      } finally {
        await kubectl.ok(['delete', 'configmap', 'compared']);
      }
    },
  },
  {
    name: 'a dry run in the server leaves nothing',
    async run({ kubectl }) {
      const input = configMap('dry', { a: 'b' });
      assert.match(
        await kubectl.ok(['apply', '--dry-run=server', '-f', '-'], { input }),
        /created \(server dry run\)/,
      );
      assert.equal((await kubectl.run(['get', 'configmap', 'dry'])).code, 1);
    },
  },
  {
    name: 'what the server finds invalid is told with its field',
    async run({ kubectl }) {
      const bad = await kubectl.run(['create', '-f', '-'], { input: configMap('Not_A_Name', {}) });
      assert.equal(bad.code, 1);
      assert.match(bad.stderr, /ConfigMap "Not_A_Name" is invalid: metadata\.name: Invalid value/);
    },
  },
  {
    name: 'an unknown field is refused by the server',
    since: 25,
    async run({ kubectl }) {
      const input = JSON.stringify({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'odd' },
        dta: {},
      });
      const odd = await kubectl.run(['create', '-f', '-'], { input });
      assert.equal(odd.code, 1);
      assert.match(odd.stderr, /unknown field "dta"/);
    },
  },
  {
    name: 'labels, annotations, delete by label',
    async run({ kubectl }) {
      await withMap(kubectl, 'marked', async () => {
        await kubectl.ok(['label', 'configmap', 'marked', 'suite=marked']);
        await kubectl.ok(['annotate', 'configmap', 'marked', 'note=yes']);
        const object = JSON.parse(await kubectl.ok(['get', 'configmap', 'marked', '-o', 'json']));
        assert.equal(object.metadata.labels.suite, 'marked');
        assert.equal(object.metadata.annotations.note, 'yes');
        assert.match(await kubectl.ok(['delete', 'configmap', '-l', 'suite=marked']), /deleted/);
      });
    },
  },
  {
    name: 'secrets, typed and base64',
    needs: ['secrets'],
    async run({ kubectl }) {
      await kubectl.ok(['create', 'secret', 'generic', 'kept', '--from-literal=key=value']);
      try {
        assert.match(await kubectl.ok(['get', 'secret', 'kept']), /^kept\s+Opaque\s+1\s/m);
        const encoded = await kubectl.ok(['get', 'secret', 'kept', '-o', 'jsonpath={.data.key}']);
        assert.equal(Buffer.from(encoded, 'base64').toString(), 'value');
      } finally {
        await kubectl.ok(['delete', 'secret', 'kept']);
      }
    },
  },
];
