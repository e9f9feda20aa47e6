// The test API server as a process of its own: `node test/apiserver/main.ts [--port N] [--kubeconfig FILE] [--namespace
// NAME…]`. One line of JSON says where it is; it ends with its standard input or on SIGTERM.

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { startApiServer } from './server.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    kubeconfig: { type: 'string' },
    namespace: { type: 'string', multiple: true, default: [] },
  },
});

const server = await startApiServer({ port: Number(values.port), namespaces: values.namespace });
if (values.kubeconfig) writeFileSync(values.kubeconfig, server.kubeconfig(), { mode: 0o600 });
process.stdout.write(
  `${JSON.stringify({ url: server.url, pid: process.pid, kubeconfig: values.kubeconfig })}\n`,
);

const end = (): void => {
  void server.close().then(() => process.exit(0));
};
process.on('SIGTERM', end);
process.on('SIGINT', end);
process.stdin.on('end', end);
process.stdin.resume();
