/** Numbers, times and names as people read them. */
const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export function count(value: number): string {
  return plain.format(value);
}

export function resourceName(name: string): string {
  if (name === 'cpu') return 'CPU';
  if (name === 'memory') return 'Memory';
  if (name === 'nvidia.com/gpu') return 'GPU';
  if (name.endsWith('/gpu-memory')) return 'GPU memory';
  if (name === 'nvidia.com/gpu.shared') return 'GPU shares';
  const mig = name.match(/^(.*)\/mig-(.*?)(-mixed)?$/);
  if (mig) return mig[1] === 'nvidia.com' ? `MIG ${mig[2]}` : `${mig[1].replace(/^NVIDIA-/, '')} MIG ${mig[2]}`;
  const mps = name.match(/^(.*)\/mps-(\d+)g\*1\/(\d+)$/);
  if (mps) return `${mps[1].replace(/^NVIDIA-/, '')} MPS 1/${mps[3]}`;
  return name.replace(/^NVIDIA-/, '');
}

export function amount(resource: string, value: number): string {
  if (resource === 'cpu') return plain.format(value / 1000);
  if (resource === 'memory') {
    const gib = value / 2 ** 30;
    return gib >= 1024 ? `${plain.format(gib / 1024)} TiB` : `${plain.format(gib)} GiB`;
  }
  if (resource.endsWith('/gpu-memory')) return `${plain.format(value)} GB`;
  return plain.format(value);
}

export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}

export function percent(used: number, total: number): string {
  return total > 0 ? `${Math.round((used / total) * 100)} %` : '–';
}

export function quotaName(object: string): string {
  return object.split('/').slice(1).filter((part, at, all) => all.length < 2 || at !== 0 || part !== all[1]).join('/');
}

const reasons: Record<string, string> = {
  InvalidRequest: 'Request cannot be read',
  SchedulingGated: 'Scheduling gates set',
  AwaitingVictims: 'Evicted pods are terminating',
  QueueClosed: 'Queue closed',
  QueueNotFound: 'Queue not found',
  QueueNotLeaf: 'Queue has queues below it',
  QuotaNotFound: 'Quota not found',
  QuotaNotAllowed: 'Quota not allowed here',
  QuotaMaxExceeded: 'Quota maximum reached',
  PoolExhausted: 'Shared guarantees used up',
  RuntimeExceeded: 'Runtime share reached',
  NonPreemptibleMinExceeded: 'Non-preemptible beyond guarantee',
  CardQuotaExceeded: 'Card quota used up',
  GangIncomplete: 'Gang does not fit whole',
  CardUnavailable: 'Card not available',
  NodeCapExceeded: 'Node caps full',
  NoFittingNode: 'No node fits',
  ClaimNotReady: 'Device claim not ready',
  New: 'Not yet considered',
};

export function reason(code: string): string {
  return reasons[code] ?? code;
}

const systems: Record<string, string> = {
  'scheduling.x-k8s.io': 'Elastic quotas',
  'nos.nebuly.com': 'Elastic quotas in GPU memory (nos)',
  'n8s.nebuly.ai': 'Elastic quotas in GPU memory (n8s)',
  'scheduling.sigs.k8s.io': 'Quota tree (Koordinator)',
  'scheduling.volcano.sh': 'Queues (Volcano)',
};

export function system(group: string): string {
  return systems[group] ?? group;
}
