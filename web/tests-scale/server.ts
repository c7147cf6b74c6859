/** Starts the dashboard of a large simulated cluster and stops it afterwards. */
import { spawn } from 'node:child_process';

export default async function start(): Promise<() => void> {
  const child = spawn(process.env.LARGE_CLUSTER ?? '', [], { stdio: ['ignore', 'pipe', 'inherit'] });
  const address = await new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    child.stdout.once('data', (text: Buffer) => resolve(text.toString().trim()));
  });
  process.env.LARGE = address;
  process.env.LARGE_PID = String(child.pid);
  return () => child.kill();
}
