// What must work with a real kubectl, as steps that know nothing of what they run against: the test API server itself,
// the guard in front of it, a real cluster. Each step makes what it needs in one namespace and takes it away again, so
// that a single step can be run alone; what a step needs of its peer is said in `needs`.

import type { Kubectl } from './kubectl.ts';
import { readSteps } from './steps-read.ts';
import { streamSteps } from './steps-streams.ts';
import { workloadSteps } from './steps-workloads.ts';
import { writeSteps } from './steps-write.ts';

/**
 * - `cluster`: cluster-scoped resources and all namespaces may be read
 * - `secrets`: Secrets may be read and written
 * - `streams`: pods run commands; exec, attach, cp and port-forward are allowed
 * - `echo`: port 7 of every pod echoes (the test API server's do)
 * - `logs`: `emitLog` writes to a pod's log
 */
export type Need = 'cluster' | 'secrets' | 'streams' | 'echo' | 'logs';

export interface SuiteContext {
  kubectl: Kubectl;
  /** kubectl's minor version; steps that need a newer one are left out. */
  minor: number;
  /** Exists, and is the context's namespace. */
  namespace: string;
  /** For files that steps write. */
  folder: string;
  has: ReadonlySet<Need>;
  /** Image of the pods; it has a shell, seq, cat and tar. */
  image: string;
  /** Seconds that watches and followed logs stay silent before something happens; 0.2 by default. */
  idleSeconds: number;
  emitLog?: (pod: string, line: string) => void;
}

export interface Step {
  name: string;
  needs?: readonly Need[];
  /** The first minor version of kubectl that has what the step uses. */
  since?: number;
  run(context: SuiteContext): Promise<void>;
}

export const kubeSteps: readonly Step[] = [...readSteps, ...writeSteps, ...workloadSteps, ...streamSteps];

/** The steps that a peer and a kubectl can take. */
export function stepsFor(has: ReadonlySet<Need>, minor: number): Step[] {
  return kubeSteps.filter(
    (step) => (step.since ?? 0) <= minor && (step.needs ?? []).every((need) => has.has(need)),
  );
}

export interface StepResult {
  name: string;
  ms: number;
  error: Error | undefined;
}

/** Takes every step that applies, one after the other, and says how each went. */
export async function runKubeSuite(context: SuiteContext): Promise<StepResult[]> {
  const results: StepResult[] = [];
  for (const step of stepsFor(context.has, context.minor)) {
    const began = Date.now();
    let error: Error | undefined;
    try {
      await step.run(context);
    } catch (caught) {
      error = caught instanceof Error ? caught : new Error(String(caught));
    }
    results.push({ name: step.name, ms: Date.now() - began, error });
  }
  return results;
}

/** @returns the minor version of a kubectl, 20 for v1.20.2 */
export async function minorOf(kubectl: Kubectl): Promise<number> {
  const text = await kubectl.ok(['version', '--client', '-o', 'json']);
  const version: unknown = JSON.parse(text);
  const minor = /"gitVersion":\s*"v1\.(\d+)/.exec(JSON.stringify(version))?.[1];
  if (minor === undefined) throw new Error(`no version in ${text}`);
  return Number(minor);
}
