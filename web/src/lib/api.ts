/** Requests to the server, with the token where there is one. The token lives as long as the tab does. */
const KEY = 'quotient-token';

export class Refused extends Error {
  constructor(
    public status: number,
    message: string,
  ) {
    super(message);
  }
}

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function setToken(value: string | null): void {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

export function headers(): Record<string, string> {
  const known = token();
  return known ? { authorization: `Bearer ${known}` } : {};
}

async function answered(response: Response): Promise<Response> {
  if (response.ok) return response;
  let message = response.statusText;
  try {
    message = ((await response.json()) as { error?: string }).error ?? message;
  } catch {
    /* The answer is no JSON: the status says enough. */
  }
  throw new Refused(response.status, message);
}

export async function get<T>(path: string, query: Record<string, string | number> = {}, signal?: AbortSignal): Promise<T> {
  const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
  const response = await fetch(text ? `${path}?${text}` : path, { headers: headers(), signal });
  return (await answered(response)).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(path, {
    method: 'POST',
    headers: { ...headers(), 'content-type': 'application/json', 'x-quotient': '1' },
    body: JSON.stringify(body),
  });
  return (await answered(response)).json() as Promise<T>;
}

export async function download(path: string, name: string): Promise<void> {
  const response = await answered(await fetch(path, { headers: headers() }));
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
