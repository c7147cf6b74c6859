/** Asks again when there is a newer version, at most once a second, and never twice at a time. */
import { get } from './api';
import { live } from './live.svelte';

const PACE_MS = 1000;

export class Query<T> {
  data = $state<T | null>(null);
  error = $state<string | null>(null);
  #asked = '';
  #busy = false;
  #again = false;
  #at = 0;
  #path: () => string;

  constructor(path: () => string) {
    this.#path = path;
    $effect(() => {
      void live.version;
      void this.ask(path());
    });
  }

  async ask(path: string): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    const wait = path === this.#asked ? this.#at + PACE_MS - performance.now() : 0;
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    this.#asked = this.#path();
    this.#at = performance.now();
    try {
      this.data = await get<T>(this.#asked);
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.#busy = false;
    if (this.#again || this.#path() !== this.#asked) {
      this.#again = false;
      void this.ask(this.#path());
    }
  }
}
