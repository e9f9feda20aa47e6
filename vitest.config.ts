import { defineConfig } from 'vitest/config';

// Tests start real processes on loopback: files run in a few forks, and a hung peer fails its own test only.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    globalSetup: [],
  },
});
