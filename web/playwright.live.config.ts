import { defineConfig } from '@playwright/test';
import demo from './playwright.config';

/** The pages of a live cluster: `cargo test --test dashboard -- --ignored` starts it and runs these. */
export default defineConfig({ ...demo, testDir: 'tests-live', globalSetup: undefined, outputDir: 'test-results/run-live' });
