import { defineConfig } from '@playwright/test';

/** Real Chromium: Debian's, or the one that CHROMIUM names. */
export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results/run',
  timeout: 120_000,
  expect: { timeout: 20_000 },
  workers: 1,
  fullyParallel: false,
  reporter: [['list']],
  globalSetup: './tests/server.ts',
  use: {
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] },
    viewport: { width: 1360, height: 900 },
    colorScheme: 'light',
  },
});
