// An API server for the tests, in this process: what a kube-apiserver is to its clients, written from the API's documents
// and recorded answers, strict where the real one is, since one that accepts too much proves nothing. It keeps no process
// alive and leaves nothing behind when it is closed. Where things are:
//   request/    a request's way: read the target, who asks, may he, which handler; the record, faults on demand
//   kinds/      what is served: resources, field types, defaults, validation, discovery, OpenAPI, columns
//   objects/    state and the rules of changing it: store, create to delete, patches, apply, lists, watches
//   cluster/    what moves by itself: controllers, kubelet, logs, the pods' processes; certificates and kubeconfigs
//   streams/    exec, attach, port-forward over WebSocket and SPDY
//   encodings/  protobuf and CBOR

import { randomUUID } from 'node:crypto';
import { type IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { startControllers } from './cluster/controllers.ts';
import { type KubeconfigOptions, writeKubeconfig } from './cluster/kubeconfig.ts';
import { createKubelet } from './cluster/kubelet.ts';
import { containerOf, createLogs } from './cluster/logs.ts';
import { createAuthority, type KeyPair } from './cluster/pki.ts';
import { createPodRuntime } from './cluster/pod-runtime.ts';
import { initialObjects } from './cluster/seed.ts';
import { createOpenApi } from './kinds/openapi.ts';
import { createRegistry } from './kinds/resources.ts';
import { create } from './objects/objects.ts';
import { forbidden, internal, methodNotAllowed, noRoute, notFound } from './objects/status.ts';
import { createStore, type Store } from './objects/store.ts';
import { type JsonObject, type KObject, obj, text } from './objects/values.ts';
import { asController, type World } from './objects/world.ts';
import { authenticate, impersonate, refusal } from './request/authenticate.ts';
import { apply as applyFault, type Interceptor } from './request/faults.ts';
import { type Call, sendError } from './request/http.ts';
import { nowhere, serveNonResource } from './request/nonresource.ts';
import { createRecorder, type RequestRecord } from './request/records.ts';
import { type RequestInfo, requestInfo } from './request/request-info.ts';
import { type Handlers, serveResource } from './request/resource-handlers.ts';
import { routeResource } from './request/router.ts';
import { readTarget } from './request/target.ts';
import { type Attributes, createUsers, type UserSpec, type Users } from './request/users.ts';
import type { StreamRecord, Upgrade } from './streams/streaming.ts';

export interface ApiServerOptions {
  /** Beside `admin` of system:masters, who is always there. */
  users?: readonly UserSpec[];
  /** Beside default and the kube- ones. */
  namespaces?: readonly string[];
  /** Created at the start, in order. */
  objects?: readonly JsonObject[];
  host?: string;
  port?: number;
  /** Names and addresses of the serving certificate, beside localhost and 127.0.0.1. */
  sans?: readonly string[];
  /** Milliseconds that a pod takes to start or stop; 20 by default. */
  podDelay?: number;
  /** Milliseconds between bookmarks; a minute by default, as in the real server. */
  bookmarkEvery?: number;
  /** How many requests are remembered; 10,000 by default. */
  keepRequests?: number;
  /** Keeps every byte that came, by connection. */
  captureBytes?: boolean;
  maxBodyBytes?: number;
  /** Answers in CBOR to those who ask for it. */
  cbor?: boolean;
}

export interface ApiServer {
  readonly url: string;
  readonly port: number;
  /** PEM of the authority that signed the serving certificate. */
  readonly ca: string;
  readonly users: Users;
  readonly store: Store;
  /** Every request that came, oldest first. */
  readonly requests: readonly RequestRecord[];
  /** Bytes by connection number, with `captureBytes`. */
  readonly bytes: ReadonlyMap<number, readonly Buffer[]>;
  /** Every exec, attach and port-forward that was opened. */
  readonly streams: readonly StreamRecord[];
  /** What is open at this moment. */
  open(): { sockets: number; watches: number; logs: number; streams: number; processes: number };
  /** Forgets the requests and bytes so far. */
  forget(): void;
  /** Sets what looks at each request before everything else; undefined for nothing. */
  intercept(look: Interceptor | undefined): void;
  /** Creates an object as the control plane would. */
  create(body: JsonObject): KObject;
  get(kind: string, namespace: string, name: string): KObject | undefined;
  /** Writes a line to a container's log. */
  log(namespace: string, pod: string, line: string, container?: string): void;
  /** Ends all watches now: cleanly, or with an ERROR event that holds the Status. */
  endWatches(status?: JsonObject): void;
  /** Lets a port of a pod lead to a port of this machine; others echo. */
  mapPort(pod: string, port: number, to: number): void;
  /** Health checks to fail, by name. */
  readonly failing: Set<string>;
  kubeconfig(options?: KubeconfigOptions): string;
  clientCertificate(user: string, groups: readonly string[], notAfter?: Date): Promise<KeyPair>;
  close(): Promise<void>;
}

const FLOW = {
  'X-Kubernetes-Pf-Flowschema-Uid': 'f215f3c0-1c33-463c-a709-e229c578f4d7',
  'X-Kubernetes-Pf-Prioritylevel-Uid': '2a2eb3ec-65a4-4dd8-b071-77838c16e0db',
};
const UPGRADES = new Set(['exec', 'attach', 'portforward']);

export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const serving = await createAuthority('kube-ca');
  const signer = await createAuthority('kube-client-ca');
  const names = ['localhost', '127.0.0.1', '::1', ...(options.sans ?? [])];
  const { cert, key } = await serving.serving(names);

  const users = createUsers([
    { name: 'admin', uid: 'uid-admin', groups: ['system:masters'] },
    ...(options.users ?? []),
  ]);
  const certificates = new Map<string, KeyPair>();
  for (const name of users.names()) {
    if (!options.users?.some((spec) => spec.name === name && spec.tokens?.length)) users.rotate(name);
    const { groups } = users.identity(name);
    certificates.set(
      name,
      await signer.client(
        name,
        groups.filter((group) => group !== 'system:authenticated'),
      ),
    );
  }

  const world: World = { store: createStore(), registry: createRegistry(), now: () => Date.now() };
  const logs = createLogs(world.now);
  const runtime = createPodRuntime();
  const recorder = createRecorder(options.keepRequests ?? 10_000);
  const streams: StreamRecord[] = [];
  const watches = new Set<{ end(): void; error(status: JsonObject): void }>();
  const counts = { logs: 0 };
  const failing = new Set<string>();
  const sockets = new Set<Socket>();
  let interceptor: Interceptor | undefined;

  const kubelet = createKubelet(world, {
    startDelay: options.podDelay ?? 20,
    nodeName: 'node-1',
    onStart(pod) {
      for (const container of containersOf(pod)) logs.emit(pod, container, `${container} started`);
    },
    onStop(pod) {
      logs.drop(pod);
      runtime.stop(pod);
    },
  });
  const stopControllers = startControllers(world, kubelet);

  const handlers: Handlers = {
    world,
    users,
    logs,
    streams: { runtime, logs, opened: (record) => void streams.push(record) },
    watches: {
      bookmarkEvery: options.bookmarkEvery ?? 60_000,
      maxBacklog: 64 * 1024 * 1024,
      opened(end, error) {
        const entry = { end, error };
        watches.add(entry);
        return () => watches.delete(entry);
      },
    },
    followed() {
      counts.logs++;
      return () => void counts.logs--;
    },
  };
  const openApi = createOpenApi(world.registry);
  let address = '';
  const nonResource = { registry: world.registry, openApi, address: () => address, failing };

  const handle = async (
    request: IncomingMessage,
    response: ServerResponse,
    upgrade: Upgrade | undefined,
  ): Promise<void> => {
    const record = recorder.note(request, upgrade !== undefined);
    response.on('close', () => {
      record.status = response.statusCode;
    });
    const target = readTarget(request.url ?? '');
    if (!target) {
      response.writeHead(400, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' });
      response.end('400 Bad Request');
      return;
    }
    const given = request.headers['audit-id'];
    record.auditId = typeof given === 'string' && given !== '' ? given : randomUUID();
    response.setHeader('Audit-Id', record.auditId);
    response.setHeader('Cache-Control', 'no-cache, private');
    const info = requestInfo(request.method ?? '', target);
    try {
      if (!info) throw internal(`unable to determine kind and namespace from url, ${request.url}`);
      const call: Call = {
        request,
        response,
        target,
        info,
        who: { username: '', uid: '', groups: [] },
        served: options.cbor ? ['json', 'yaml', 'cbor'] : ['json', 'yaml'],
        maxBodyBytes: options.maxBodyBytes ?? 3 * 1024 * 1024,
        noteBody(bytes) {
          record.body = bytes;
        },
      };
      const fault = interceptor?.(record);
      if (fault && !(await applyFault(fault, call))) return;
      const presented = authenticate(request, users);
      record.user = presented.username;
      call.who = impersonate(request, presented, users);
      for (const [name, value] of Object.entries(FLOW)) response.setHeader(name, value);
      const wanted = attributes(info);
      if (!users.allows(call.who, wanted))
        throw forbidden(
          { group: wanted.group, resource: wanted.resource },
          wanted.name,
          refusal(call.who, wanted),
        );
      if (!info.isResource) return serveNonResource(call, nonResource);
      const route = routeResource(request.method ?? '', target.path, world.registry);
      if (route === 'not-api') return nowhere(call);
      if (route === 'not-found') throw noRoute();
      if (route === 'method-not-allowed') throw methodNotAllowed();
      await serveResource(call, route, upgrade, handlers);
      if (upgrade && UPGRADES.has(info.subresource)) record.status = 101;
    } catch (error) {
      sendError({ request, response }, error);
    } finally {
      if (!request.readableEnded && !upgrade) request.resume();
    }
  };

  const server = createServer({
    key,
    cert,
    ca: signer.ca,
    requestCert: true,
    rejectUnauthorized: false,
    maxHeaderSize: 1 << 20, // Go's default
    requestTimeout: 0,
    headersTimeout: 32_000,
    keepAliveTimeout: 90_000,
    // As in Go, only a handler that takes the connection over looks at Upgrade; all others just answer.
    shouldUpgradeCallback: (request: IncomingMessage) => {
      const target = readTarget(request.url ?? '');
      const info = target && requestInfo(request.method ?? '', target);
      return info?.isResource === true && UPGRADES.has(info.subresource);
    },
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('secureConnection', (socket) => {
    recorder.connected(socket);
    if (options.captureBytes) recorder.capture(socket);
  });
  server.on('tlsClientError', (_error, socket) => void socket.destroy());
  server.on('request', (request, response) => void handle(request, response, undefined));
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // The answer is only put on the socket when the handler gives one instead of taking the connection over.
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    socket.on('error', () => socket.destroy());
    void handle(request, response, { socket, head }).then(() => {
      if (!response.writableEnded) return;
      response.assignSocket(socket as Socket);
      response.on('finish', () => socket.end());
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, options.host ?? '127.0.0.1', () => resolve());
  });
  server.unref();
  const { port } = server.address() as AddressInfo;
  address = `${options.host ?? '127.0.0.1'}:${port}`;
  const url = `https://${address}`;

  const createFrom = (body: JsonObject): KObject => {
    const [version = '', group = ''] = text(body.apiVersion).split('/').reverse();
    const type = world.registry
      .types()
      .find((one) => one.kind === body.kind && one.group === group && one.version === version);
    if (!type) throw new Error(`the test API server has no ${text(body.kind)} in ${text(body.apiVersion)}`);
    const namespace = type.namespaced ? text(obj(body.metadata).namespace) || 'default' : '';
    return create(world, { type, namespace, name: '', subresource: '' }, body, {
      ...asController,
      manager: 'kube-apiserver',
    });
  };
  for (const body of initialObjects(options.namespaces ?? [])) createFrom(body);
  // As after a cluster's first moments: the controllers have filled the namespaces.
  const configMaps = { group: '', resource: 'configmaps' };
  const filled = (namespace: KObject): boolean =>
    world.store.get(configMaps, namespace.metadata.name, 'kube-root-ca.crt') !== undefined;
  while (!world.store.list({ group: '', resource: 'namespaces' }).every(filled))
    await new Promise((resolve) => setTimeout(resolve, 2));
  for (const body of options.objects ?? []) createFrom(body);

  const podOf = (namespace: string, name: string): KObject => {
    const pod = world.store.get({ group: '', resource: 'pods' }, namespace, name);
    if (!pod) throw notFound({ group: '', resource: 'pods' }, name);
    return pod;
  };

  return {
    url,
    port,
    ca: serving.ca,
    users,
    store: world.store,
    requests: recorder.requests,
    bytes: recorder.bytes,
    streams,
    failing,
    open: () => ({
      sockets: sockets.size,
      watches: watches.size,
      logs: counts.logs,
      streams: streams.filter((stream) => stream.live).length,
      processes: runtime.running(),
    }),
    forget: () => recorder.clear(),
    intercept(look) {
      interceptor = look;
    },
    create: createFrom,
    get(kind, namespace, name) {
      const type = world.registry.types().find((one) => one.kind === kind);
      return type && world.store.get(type, namespace, name);
    },
    log(namespace, name, line, container = '') {
      const pod = podOf(namespace, name);
      logs.emit(pod, containerOf(pod, container), line);
    },
    endWatches(status) {
      for (const { end, error } of [...watches]) status ? error(status) : end();
    },
    mapPort: (pod, from, to) => runtime.map(pod, from, to),
    kubeconfig: (wanted) =>
      writeKubeconfig(
        {
          url,
          ca: serving.ca,
          token: (name) => users.tokenOf(name),
          password: (name) => users.passwordOf(name),
          certificate: (name) => certificates.get(name) ?? missing(name),
        },
        wanted,
      ),
    clientCertificate: (name, groups, notAfter) => signer.client(name, groups, notAfter),
    async close() {
      stopControllers();
      kubelet.stop();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
      await runtime.close();
    },
  };
}

function missing(name: string): never {
  throw new Error(`the test user ${name} has no certificate`);
}

function containersOf(pod: KObject): string[] {
  const containers = obj(pod.spec).containers;
  return Array.isArray(containers) ? containers.map((one) => text(obj(one).name)) : [];
}

function attributes(info: RequestInfo): Attributes {
  return {
    verb: info.verb,
    group: info.apiGroup,
    resource: info.resource,
    subresource: info.subresource,
    namespace: info.namespace,
    name: info.name,
    ...(info.isResource ? {} : { path: info.path }),
  };
}
