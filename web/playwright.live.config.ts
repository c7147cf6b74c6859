import { defineConfig } from '@playwright/test';
import demo from './playwright.config';

/** The pages of a live cluster: `cargo test --test it -- --ignored dashboard::` starts it and runs these. */
export default defineConfig({ ...demo, testDir: 'tests-live', globalSetup: undefined, outputDir: 'test-results/run-live' });
