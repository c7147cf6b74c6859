/** The newest overview, kept up by server-sent events that resume where they broke off. */
import { headers, post } from './api';
import type { About, Entry, Overview } from './types';

interface Live {
  overview: Overview | null;
  about: About | null;
  version: number;
  state: 'connecting' | 'open' | 'lost' | 'sign-in';
  journal: Entry[];
}

export const live = $state<Live>({ overview: null, about: null, version: 0, state: 'connecting', journal: [] });

const JOURNAL_MAX = 200;
let lastId: string | null = null;
let stopped: AbortController | null = null;

function take(event: string, data: string, id: string | null): void {
  if (id) lastId = id;
  if (event === 'reset') live.journal = [];
  if (event === 'journal') live.journal = [...live.journal, ...(JSON.parse(data) as Entry[])].slice(-JOURNAL_MAX);
  if (event === 'overview') {
    const news = JSON.parse(data) as { version: number; overview: Overview; about: About };
    live.overview = news.overview;
    live.about = news.about;
    live.version = news.version;
  }
}

async function listen(signal: AbortSignal): Promise<void> {
  const known: Record<string, string> = lastId ? { 'last-event-id': lastId } : {};
  const response = await fetch('/api/events', { headers: { ...headers(), ...known }, signal });
  if (response.status === 401) {
    live.state = 'sign-in';
    return;
  }
  if (!response.ok || !response.body) throw new Error(response.statusText);
  live.state = 'open';
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      let event = 'message';
      let data = '';
      let id: string | null = null;
      for (const line of part.split('\n')) {
        if (line.startsWith('event: ')) event = line.slice(7);
        else if (line.startsWith('data: ')) data += line.slice(6);
        else if (line.startsWith('id: ')) id = line.slice(4);
      }
      if (data) take(event, data, id);
    }
  }
}

export async function connect(): Promise<void> {
  stopped?.abort();
  const own = new AbortController();
  stopped = own;
  for (let wait = 500; !own.signal.aborted; ) {
    try {
      await listen(own.signal);
      if (live.state === 'sign-in') return;
      wait = 500;
    } catch {
      if (own.signal.aborted) return;
      live.state = 'lost';
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 10_000);
  }
}

export async function control(command: Record<string, unknown>): Promise<void> {
  live.about = await post<About>('/api/control', command);
}
