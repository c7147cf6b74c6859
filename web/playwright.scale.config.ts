import { defineConfig } from '@playwright/test';
import demo from './playwright.config';

/** 5,000 nodes and 50,000 pods: `make bench-web` starts the server and runs these. */
export default defineConfig({ ...demo, testDir: 'tests-scale', globalSetup: './tests-scale/server.ts', outputDir: 'test-results/run-scale' });
