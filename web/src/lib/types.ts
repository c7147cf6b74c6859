/** What the server answers. Amounts are as ledgers count them: millicores of cpu, base units of all else. */
export interface Why {
  code: string;
  message: string;
  quota: string | null;
  resource: string | null;
  used: number | null;
  requested: number | null;
  limit: number | null;
  remedies: string[];
}
export interface Pod {
  namespace: string;
  name: string;
  phase: 'Pending' | 'Running' | 'Terminating' | 'Succeeded' | 'Failed';
  node: string | null;
  card: string | null;
  gpus: number;
  requests: [string, number][];
  priority: number;
  group: string | null;
  quotas: string[];
  capacity: string | null;
  createdMs: number;
  startedMs: number | null;
  why: Why | null;
}
export interface Entry {
  seq: number;
  atMs: number;
  namespace: string;
  name: string;
  what: 'submitted' | 'waits' | 'bound' | 'evicted' | 'ended' | 'gone';
  code?: string;
  message?: string;
  node?: string;
  by?: string | null;
  rule?: string;
  phase?: string;
}
export interface Use {
  name: string;
  used: number;
  total: number | null;
}
export interface Overview {
  atMs: number;
  whole: boolean;
  running: number;
  pending: number;
  terminating: number;
  nodes: number;
  nodesNotReady: number;
  nodesCordoned: number;
  evictionsLastHour: number;
  health: { level: 'good' | 'attention' | 'trouble'; sentences: string[] };
  cards: Use[];
  resources: Use[];
  teams: { team: string; gpus: number; cpu: number; memory: number; running: number; waiting: number; borrowed: number; cards: Record<string, number> }[];
  waiting: { code: string; quota: string | null; resource: string | null; count: number; oldestMs: number; message: string; remedy: string | null; teams: string[] }[];
  evictions: Entry[];
}
export interface Chapter {
  atMs: number;
  title: string;
  text: string;
  look: string;
  begun: boolean;
  outcome: string | null;
  asTold: boolean;
}
export interface About {
  mode: 'demo' | 'live';
  acts: boolean;
  user?: string;
  seed?: number;
  paused?: boolean;
  speed?: number;
  speeds?: number[];
  atMs?: number;
  startMs?: number;
  endMs?: number;
  nowMs?: number;
  story?: Chapter[];
  recorded?: boolean;
  stuck?: string | null;
  example?: string;
}
export interface Amounts {
  guaranteed: number | null;
  entitled: number;
  used: number;
  borrowed: number;
  lent: number;
  reclaimable: number;
  max: number | null;
}
export interface Quota {
  object: string;
  kind: string;
  group: string;
  namespace: string | null;
  name: string;
  policy: string;
  parent: string | null;
  tree: string | null;
  resources: Record<string, Amounts>;
  waiting: number;
}
export interface Loan {
  resource: string;
  lender: string;
  borrower: string;
  amount: number;
}
export interface MapNode {
  name: string;
  pool: string;
  rack: string;
  ready: boolean;
  cordoned: boolean;
  allocatable: [string, number][];
  used: [string, number][];
  cards: [string, number][];
  cap: [string, number][];
  capUsed: [string, number][];
  gpus: number;
  gpus_used: number;
  holders: [string, number][];
  pods: number;
}
export interface WaitRow {
  namespace: string;
  name: string;
  gpus: number;
  priority: number;
  group: string | null;
  createdMs: number;
  why: Why | null;
  quota: string | null;
  position: number;
  estimateMs: number | null;
}
export interface Waiting {
  total: number;
  all: number;
  offset: number;
  rows: WaitRow[];
  codes: Record<string, number>;
  teams: Record<string, number>;
}
export interface Answer {
  verdict: string;
  rejected: string[];
  evicted: { pod: string; node: string; by: string | null; rule: string; message: string }[];
  evictedCount: number;
  bound: { pod: string; node: string }[];
  boundCount: number;
  waiting: { pod: string; before: string | null; after: string; message: string; remedies: string[] }[];
  waitingCount: number;
  quotas: { object: string; resource: string; before: Amounts | null; after: Amounts | null }[];
}
export interface Series {
  frameMs: number;
  atMs: number[];
  teams: Record<string, number[]>;
  cards: Record<string, number[]>;
  waiting: number[];
  evicted: number[];
}
export interface QuotaPoint {
  object: string;
  resource: string;
  used: number;
  entitled: number;
  guaranteed: number;
  borrowed: number;
}
export interface Frame {
  fromMs: number;
  toMs: number;
  teams: Record<string, number>;
  cards: Record<string, [number, number | null]>;
  waiting: Record<string, number>;
  evicted: number;
  quotas: QuotaPoint[];
}
export interface Hours {
  team: string;
  card: string;
  gpuHours: number;
}
