/** Starts `quotient demo` for the tests and stops it after them. */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');

export default async function start(): Promise<() => void> {
  mkdirSync(join(root, 'web', 'test-results', 'screenshots'), { recursive: true });
  const program = process.env.QUOTIENT ?? join(root, process.env.CARGO_TARGET_DIR ?? 'target', 'debug', 'quotient');
  const child = spawn(program, ['demo', '--listen', '127.0.0.1:0', '--nodes', '60', '--seed', '1'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const address = await new Promise<string>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('the demo did not start within 60 s')), 60_000);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the demo ended with ${code}`)));
    child.stdout.once('data', (text: Buffer) => {
      clearTimeout(late);
      resolve(text.toString().trim().replace(/\/$/, ''));
    });
  });
  process.env.DEMO = address;
  return () => child.kill('SIGINT');
}
