// Device nodes of the executor's host, opened by the runtime (`--device`). The widest authority there is here, so the
// inventory is read strictly when it is stored: a bad one that was found at lease time would only be missing from a
// sandbox that then reports about hardware it never had. Names are matched in their own case: `gpu0` and `GPU0` may be
// two things. Payload: `[{"name", "source", "target"?, "permissions"?}]`.

import { posix } from 'node:path';
import { compileGlob } from '../../common/glob.ts';
import { bad, onlyFor, requireOne } from '../constraints/constraints.ts';
import type { GrantedDevice } from '../material.ts';
import { direct, type KindRules } from './kind-rules.ts';
import { jsonOf, malformed, nothingLeft, onlyKeys, textOf } from './payload.ts';

export const MAX_HOST_DEVICES = 16;
const WHAT = 'list of devices';
const MEMBERS = ['name', 'source', 'target', 'permissions'];

export const hostDevice: KindRules<readonly GrantedDevice[]> = {
  kind: 'host_device',
  constraints: ['devices'],
  inspect: (payload) => parseDevices(payload).map(({ name }) => name),
  credentials: () => [],
  checkConstraints(constraints) {
    onlyFor(constraints, ['devices'], WHAT);
    requireOne(constraints, ['devices'], WHAT);
    for (const pattern of constraints.devices ?? []) {
      compileGlob(pattern, { key: 'constraints.devices' });
      if (pattern.includes('/'))
        throw bad('constraints.devices', `${JSON.stringify(pattern)} is not the name of a device`);
    }
  },
  minimise(payload, constraints) {
    const allowed = (constraints.devices ?? []).map((pattern) => compileGlob(pattern));
    const kept = parseDevices(payload).filter(({ name }) => allowed.some((matches) => matches(name)));
    if (kept.length === 0) throw nothingLeft('The list has no device that the grant allows.');
    if (kept.length > MAX_HOST_DEVICES)
      throw nothingLeft(
        `The grant covers ${kept.length} devices; at most ${MAX_HOST_DEVICES} can be opened at once.`,
      );
    return kept;
  },
  materialise: (devices) =>
    direct({
      devices,
      summary: `devices ${devices.map(({ name, permissions }) => `${name} (${permissions})`).join(', ')}`,
    }),
};

/** @throws PosternError `invalid_input` */
export function parseDevices(payload: Buffer): GrantedDevice[] {
  const list = jsonOf(textOf(payload, WHAT), WHAT);
  if (!Array.isArray(list) || list.length === 0)
    throw malformed(WHAT, 'it is not a JSON list with at least one device');
  const devices = (list as unknown[]).map(readDevice);
  for (const member of ['name', 'source', 'target'] as const)
    if (new Set(devices.map((device) => device[member])).size !== devices.length)
      throw malformed(WHAT, `two devices have the same ${member}`);
  return devices;
}

function readDevice(entry: unknown): GrantedDevice {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw malformed(WHAT, 'an entry is no object');
  onlyKeys(entry, MEMBERS, WHAT);
  const { name, source, target = source, permissions = 'rw' } = entry as { [member: string]: unknown };
  if (typeof name !== 'string' || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name))
    throw malformed(WHAT, 'a name is not made of letters, digits, ".", "_" and "-"');
  // Docker's order is fixed, and a permission that is given twice or out of it is a typing mistake.
  if (typeof permissions !== 'string' || !/^r?w?m?$/.test(permissions) || permissions === '')
    throw malformed(WHAT, 'permissions are not of r, w and m in this order');
  return { name, source: devicePath(source), target: devicePath(target), permissions };
}

function devicePath(value: unknown): string {
  if (
    typeof value !== 'string' ||
    !/^\/dev\/[A-Za-z0-9._/:-]{1,200}$/.test(value) ||
    posix.normalize(value) !== value ||
    value.endsWith('/')
  )
    throw malformed(WHAT, 'a path is not that of one node under /dev');
  return value;
}
