// The kinds that there are, as a closed union: a new one is a file beside these and a line in this table, and the
// compiler asks for it wherever a kind is told apart.

import type { Kind } from '../kind.ts';
import { egressProxy } from './egress-proxy.ts';
import { env } from './env.ts';
import { githubApp } from './github-app.ts';
import { githubPat } from './github-pat.ts';
import { hostDevice } from './host-device.ts';
import type { KindRules } from './kind-rules.ts';
import { kubeconfig } from './kubeconfig.ts';
import { localRepo } from './local-repo.ts';
import { registry } from './registry.ts';

const RULES: { readonly [K in Kind]: KindRules } = {
  egress_proxy: egressProxy,
  env,
  github_app: githubApp,
  github_pat: githubPat,
  host_device: hostDevice,
  kubeconfig,
  local_repo: localRepo,
  registry,
};

export function rulesOf(kind: Kind): KindRules {
  return RULES[kind];
}
