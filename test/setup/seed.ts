// One seed for every property of a run, so that a red run can be had again: POSTERN_TEST_SEED=N explores another.

import fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env.POSTERN_TEST_SEED ?? 20_261_130) });
