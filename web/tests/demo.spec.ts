/** The demo in a real browser: every page, the whole story, keys, and axe. Screenshots are kept in test-results. */
import AxeBuilder from '@axe-core/playwright';
import { expect, test as base, type Page } from '@playwright/test';

const demo = () => process.env.DEMO ?? '';
const shots = 'test-results/screenshots';

/** A page on which nothing may go wrong unseen. */
const test = base.extend<{ page: Page }>({
  page: async ({ page }, use) => {
    const wrong: string[] = [];
    page.on('pageerror', (error) => wrong.push(error.message));
    page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
    page.on('request', (request) => /^(data|blob):/.test(request.url()) || request.url().startsWith(demo()) || wrong.push(`outside: ${request.url()}`));
    await use(page);
    expect(wrong, 'errors in the console, requests to other places').toEqual([]);
  },
});

async function control(command: object): Promise<void> {
  const response = await fetch(`${demo()}/api/control`, { method: 'POST', headers: { 'x-quotient': '1' }, body: JSON.stringify(command) });
  expect(response.ok).toBe(true);
}

async function about(): Promise<{ atMs: number; story: { title: string; outcome: string | null; asTold: boolean }[] }> {
  return (await fetch(`${demo()}/api/about`)).json();
}

async function sound(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map((found) => `${found.id}: ${found.nodes.map((node) => node.target.join(' ')).join(' | ')}`)).toEqual([]);
}

const pages = ['overview', 'quotas', 'waiting', 'nodes', 'what-if', 'history'];
const titles: Record<string, string> = { overview: 'Overview', quotas: 'Quotas', waiting: 'Waiting', nodes: 'Nodes', 'what-if': 'What-if', history: 'History' };

test('the story is told, chapter by chapter', async ({ page }) => {
  await control({ do: 'pause' });
  await control({ do: 'reset' });
  await page.goto(demo());
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  test.info().annotations.push({ type: 'first contentful paint', description: `${Math.round(paint)} ms` });
  const { story } = await about();
  for (const [index, chapter] of story.entries()) {
    for (let tries = 0; tries < 4 && (await about()).story[index].outcome === null; tries += 1) {
      await page.getByRole('button', { name: 'Next chapter' }).click();
      await page.waitForTimeout(100);
    }
    const told = (await about()).story[index];
    expect(told.asTold, `${told.title}: ${told.outcome}`).toBe(true);
    await expect(page.getByText(`${index + 1}. ${chapter.title}.`)).toBeVisible();
    await page.screenshot({ path: `${shots}/story-${index + 1}.png` });
  }
});

for (const name of pages) {
  test(`${name}: reads well, in light and dark and on a phone`, async ({ page }) => {
    await control({ do: 'pause' });
    await page.goto(`${demo()}/#/${name}`);
    await expect(page.getByRole('heading', { name: titles[name], level: 1 })).toBeVisible();
    await page.waitForTimeout(600);
    await sound(page);
    await page.screenshot({ path: `${shots}/${name}-light.png`, fullPage: true });
    await page.getByRole('button', { name: 'Switch to dark colours' }).click();
    await page.waitForTimeout(200);
    await sound(page);
    await page.screenshot({ path: `${shots}/${name}-dark.png`, fullPage: true });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.waitForTimeout(200);
    await sound(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(wide, 'nothing sticks out on a phone').toBeLessThanOrEqual(1);
    await page.screenshot({ path: `${shots}/${name}-phone.png`, fullPage: true });
    await page.evaluate(() => localStorage.clear());
  });
}

test('every chart has a table that says the same', async ({ page }) => {
  await control({ do: 'step' });
  await control({ do: 'step' });
  for (const address of ['#/history', '#/quotas?quota=ElasticQuota%2Fvision%2Fvision']) {
    await page.goto(`${demo()}/${address}`);
    await expect(page.locator('figure canvas').first()).toBeVisible();
    for (const chart of await page.locator('figure').all()) {
      await chart.getByText('Table', { exact: true }).click();
      await expect(chart.getByRole('table')).toBeVisible();
      expect(await chart.locator('tbody tr').count()).toBeGreaterThan(1);
    }
  }
  await sound(page);
  await page.screenshot({ path: `${shots}/quota.png`, fullPage: true });
  for (const bar of await page.locator('svg.bar').all()) expect(await bar.getAttribute('aria-label')).toBeTruthy();
  await page.goto(`${demo()}/#/nodes`);
  await page.getByRole('button', { name: 'Table' }).click();
  await expect(page.getByRole('region', { name: 'Nodes, as a table' }).getByRole('row')).toHaveCount(61);
  await page.getByRole('button', { name: 'Map' }).click();
  await page.getByRole('button', { name: /^a100-000:/ }).click();
  await expect(page.getByRole('heading', { name: 'Pods here' })).toBeVisible();
  await sound(page);
  await page.screenshot({ path: `${shots}/node.png` });
});

test('keys lead to pages, to the search and to the help', async ({ page }) => {
  await page.goto(demo());
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  for (const [index, name] of pages.entries()) {
    await page.keyboard.press(String(index + 1));
    await expect(page.getByRole('heading', { name: titles[name], level: 1 })).toBeVisible();
  }
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox', { name: 'Find a pod' })).toBeFocused();
  await page.keyboard.type('pretrain-0');
  await page.getByRole('list', { name: 'Pods found' }).getByRole('button').first().click();
  await expect(page.getByRole('heading', { name: 'Its story' })).toBeVisible();
  await sound(page);
  await page.screenshot({ path: `${shots}/pod.png`, fullPage: true });
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toBeVisible();
  await sound(page);
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toBeHidden();
});

test('a quota change is tried and then applied', async ({ page }) => {
  await control({ do: 'pause' });
  await page.goto(`${demo()}/#/what-if`);
  await page.getByLabel('Edit a quota').selectOption({ label: 'vision (ElasticQuota)' });
  const text = page.getByLabel('Manifest, YAML or JSON');
  await expect(text).toHaveValue(/kind: ElasticQuota/);
  await text.fill((await text.inputValue()).replace(/min:\n(\s+)nvidia.com\/gpu: .*/, 'min:\n$1nvidia.com/gpu: "8"'));
  await page.getByRole('button', { name: 'Try it' }).click();
  await expect(page.locator('.verdict')).toContainText('Accepted');
  await sound(page);
  await page.screenshot({ path: `${shots}/what-if-answer.png`, fullPage: true });
  await text.fill((await text.inputValue()).replace('"8"', '"-8"'));
  await page.getByRole('button', { name: 'Try it' }).click();
  await expect(page.locator('.verdict')).toContainText('Rejected');
  await text.fill((await text.inputValue()).replace('"-8"', '"8"'));
  await page.getByRole('button', { name: 'Apply to the cluster' }).click();
  await expect(page.getByText('Applied: ElasticQuota/vision/vision')).toBeVisible();
});

test('a job that is submitted has a story', async ({ page }) => {
  await page.goto(`${demo()}/#/what-if`);
  await page.getByRole('button', { name: 'A job to submit' }).click();
  const manifest = await page.getByLabel('Manifest, YAML or JSON').inputValue();
  const name = /name: (mine-\d+)/.exec(manifest)?.[1] ?? '';
  await page.getByRole('button', { name: 'Apply to the cluster' }).click();
  await expect(page.getByText(`Applied: Pod/vision/${name}`)).toBeVisible();
  await page.goto(`${demo()}/#/pod/vision/${name}`);
  await expect(page.getByText('Submitted').first()).toBeVisible();
});

test('time can be stopped, stepped and turned back', async ({ page }) => {
  await control({ do: 'pause' });
  await page.goto(`${demo()}/#/history`);
  const before = (await about()).atMs;
  await page.getByRole('button', { name: 'Step 30 s' }).click();
  await expect.poll(async () => (await about()).atMs).toBe(before + 30_000);
  const slider = page.getByLabel('Move through time');
  await slider.focus();
  for (let press = 0; press < 20; press += 1) await page.keyboard.press('ArrowLeft');
  await page.getByRole('button', { name: 'Take the cluster back to this moment' }).click();
  await expect.poll(async () => (await about()).atMs).toBeLessThan(before);
  await page.getByRole('button', { name: 'Play' }).click();
  await page.getByLabel('Speed').selectOption('60');
  const now = (await about()).atMs;
  await expect.poll(async () => (await about()).atMs).toBeGreaterThan(now);
  await page.getByRole('button', { name: 'Pause' }).click();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download CSV' }).click()]);
  expect(download.suggestedFilename()).toBe('gpu-hours.csv');
});

test('fifty thousand pending pods stay fluid', async ({ page }) => {
  const total = 50_000;
  await page.route('**/api/waiting?*', async (route) => {
    const query = new URL(route.request().url()).searchParams;
    const offset = Number(query.get('offset'));
    const rows = Array.from({ length: Math.min(Number(query.get('limit')), total - offset) }, (_, at) => ({
      namespace: 'crowd', name: `pod-${offset + at}`, gpus: 1, priority: 0, group: null, createdMs: 0, quota: 'Queue/crowd', position: offset + at + 1, estimateMs: null,
      why: { code: 'PoolExhausted', message: 'full', quota: null, resource: null, used: null, requested: null, limit: null, remedies: [] },
    }));
    await route.fulfill({ json: { total, all: total, offset, rows, codes: { PoolExhausted: total }, teams: { crowd: total } } });
  });
  await page.goto(`${demo()}/#/waiting`);
  await expect(page.getByText('50,000 pending pods')).toBeVisible();
  const list = page.getByRole('region', { name: 'Pending pods' });
  const slowest = await list.evaluate(async (host) => {
    let slowest = 0;
    let last = performance.now();
    for (let step = 1; step <= 60; step += 1) {
      host.scrollTop = (host.scrollHeight / 60) * step;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      slowest = Math.max(slowest, performance.now() - last);
      last = performance.now();
    }
    return slowest;
  });
  test.info().annotations.push({ type: 'slowest frame', description: `${Math.round(slowest)} ms` });
  await expect(page.getByText('crowd/pod-49999')).toBeVisible();
  expect(await list.getByRole('row').count()).toBeLessThan(80);
});

test('a stream resumes where it broke off', async () => {
  const read = async (id: string | null): Promise<string> => {
    const own = new AbortController();
    const response = await fetch(`${demo()}/api/events`, { headers: id ? { 'last-event-id': id } : {}, signal: own.signal });
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    own.abort();
    return new TextDecoder().decode(value);
  };
  const first = await read(null);
  const id = /id: (\d+)/.exec(first)?.[1] ?? '';
  expect(first).toContain('event: overview');
  expect(first).not.toContain('event: journal');
  await control({ do: 'step' });
  await control({ do: 'step' });
  await control({ do: 'step' });
  const missed = await read(id);
  expect(missed).toContain('event: journal');
  expect(await read('999999999')).toContain('event: reset');
});

test('other sites get nothing, and pages are strict', async () => {
  const page = await fetch(demo());
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect((await fetch(`${demo()}/api/control`, { method: 'POST', body: '{"do":"pause"}' })).status).toBe(403);
  expect((await fetch(`${demo()}/etc/passwd`)).status).toBe(404);
});
