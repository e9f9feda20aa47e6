// A lease may carry a proxy for the outside and sessions at the guards. A client that sent its requests for a guard
// through that proxy would not reach it, so the guards are named in NO_PROXY of the same material.

import { PROXY_VARIABLES } from '../kinds/egress-proxy.ts';
import type { Material } from '../material.ts';
import type { HeldSession } from './record.ts';

export function withNoProxy(
  materials: readonly Material[],
  sessions: readonly HeldSession[],
): readonly Material[] {
  const hosts = [...new Set(sessions.map(({ host }) => host).filter((host) => host !== ''))].sort().join(',');
  if (hosts === '') return materials;
  return materials.map((material) =>
    material.type === 'direct' && PROXY_VARIABLES.some((name) => material.env[name] !== undefined)
      ? { ...material, env: { ...material.env, NO_PROXY: hosts, no_proxy: hosts } }
      : material,
  );
}
