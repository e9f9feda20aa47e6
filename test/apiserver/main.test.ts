import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { createKubectl } from '../kube-suite/kubectl.ts';

const folder = mkdtempSync(join(tmpdir(), 'main-test-'));
const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

test('as a process of its own it says where it is, serves, and ends with its input', async () => {
  const kubeconfig = join(folder, 'kubeconfig');
  const args = [path('./main.ts'), '--kubeconfig', kubeconfig, '--namespace', 'one', '--namespace', 'two'];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  expect(JSON.parse(line.toString()).url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
  const names = await createKubectl({ kubeconfig, folder }).ok(['get', 'namespaces', '-o', 'name']);
  expect(names).toContain('namespace/two');
  child.stdin.end();
  expect((await once(child, 'exit'))[0]).toBe(0);
  rmSync(folder, { recursive: true, force: true });
});

test('a server that nobody closes keeps no process alive', async () => {
  const source = `const { startApiServer } = await import(${JSON.stringify(path('./server.ts'))}); await startApiServer();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: 'inherit' });
  expect((await once(child, 'exit'))[0]).toBe(0);
});
