// The suite as vitest sees it: one test for each step.

import { afterAll, beforeAll, describe, it } from 'vitest';
import { type Need, type Step, type SuiteContext, stepsFor } from './suite.ts';

export interface SuiteTarget {
  context: SuiteContext;
  end(): Promise<void>;
}

export interface SuiteChoice {
  has: ReadonlySet<Need>;
  minor: number;
  /** Which of the steps that apply; all by default. */
  only?: (step: Step) => boolean;
}

export function describeKubeSuite(
  title: string,
  { has, minor, only = () => true }: SuiteChoice,
  prepare: () => Promise<SuiteTarget>,
): void {
  describe(title, () => {
    let target: SuiteTarget | undefined;
    beforeAll(async () => {
      target = await prepare();
    });
    afterAll(async () => {
      await target?.end();
    });
    for (const step of stepsFor(has, minor).filter(only))
      it(step.name, { timeout: 120_000 }, async () => {
        if (!target) throw new Error('the target was not prepared');
        await step.run(target.context);
      });
  });
}
