import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

const root = import.meta.dirname;
/** Everything that the bundle is made from. `crates/dashboard/tests/bundle.rs` reads the same list. */
const sources = ['index.html', 'package.json', 'package-lock.json', 'public', 'src', 'svelte.config.js', 'tsconfig.json', 'vite.config.ts'];
const gzippedMax = 200 * 1024;

function files(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) => files(join(path, entry.name)));
  } catch {
    return [path];
  }
}

/** FNV-1a over names and contents, in order of names. */
function fingerprint(): string {
  const paths = sources.flatMap((source) => files(join(root, source))).map((path) => relative(root, path)).sort();
  let hash = 0xcbf29ce484222325n;
  for (const path of paths) {
    for (const byte of Buffer.concat([Buffer.from(path), Buffer.from([0]), readFileSync(join(root, path)), Buffer.from([0])])) {
      hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
    }
  }
  return hash.toString(16).padStart(16, '0');
}

/** Writes what the bundle was built from, and refuses one that is too large. */
function sealed(): Plugin {
  return {
    name: 'sealed',
    closeBundle() {
      const dist = join(root, 'dist');
      const built = files(dist).filter((path) => !path.endsWith('sources.txt'));
      const size = built.reduce((sum, path) => sum + gzipSync(readFileSync(path)).length, 0);
      if (size > gzippedMax) throw new Error(`the bundle has ${size} bytes gzipped, at most ${gzippedMax} are allowed`);
      writeFileSync(join(dist, 'sources.txt'), `${fingerprint()}\n`);
      console.log(`bundle: ${size} bytes gzipped`);
    },
  };
}

export default defineConfig({
  root,
  plugins: [svelte(), sealed()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: { entryFileNames: 'assets/app.js', assetFileNames: 'assets/app[extname]', inlineDynamicImports: true },
    },
  },
});
