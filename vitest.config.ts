import { defineConfig } from 'vitest/config';

// Tests start real processes on loopback: files run in a few forks, and a hung peer fails its own test only.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['./test/setup/seed.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
    reporters: ['default', './test/setup/summary.ts'],
  },
});
