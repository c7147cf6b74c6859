/** `quotient run --dashboard` on a real API server in a real browser: sign in, every page, what-if, apply. */
import AxeBuilder from '@axe-core/playwright';
import { expect, test, type Page } from '@playwright/test';

const live = process.env.LIVE ?? '';
const shots = 'test-results/screenshots';

async function sound(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map((found) => `${found.id}: ${found.nodes.map((node) => node.target.join(' ')).join(' | ')}`)).toEqual([]);
}

async function signIn(page: Page, token: string): Promise<void> {
  await page.goto(live);
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
}

test('an unknown token is refused', async ({ page }) => {
  await page.goto(live);
  await sound(page);
  await page.screenshot({ path: `${shots}/live-sign-in.png` });
  await page.getByLabel('Token').fill('nonsense');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('alert')).toContainText('does not know this token');
});

test('an administrator sees every page', async ({ page }) => {
  await signIn(page, process.env.ADMIN_TOKEN ?? '');
  await expect(page.getByRole('cell', { name: /amber/ }).or(page.getByRole('rowheader', { name: /amber/ })).first()).toBeVisible();
  for (const name of ['Quotas', 'Waiting', 'Nodes', 'What-if', 'History', 'Overview']) {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible();
    await page.waitForTimeout(800);
    await sound(page);
    await page.screenshot({ path: `${shots}/live-${name.toLowerCase()}.png`, fullPage: true });
  }
  await page.getByRole('searchbox', { name: 'Find a pod' }).fill('cedar-job-5');
  await page.getByRole('list', { name: 'Pods found' }).getByRole('button').first().click();
  await expect(page.getByRole('heading', { name: /Why it is pending/ })).toBeVisible();
  await page.screenshot({ path: `${shots}/live-pod.png`, fullPage: true });
});

test('a tenant sees its own, and no other name', async ({ page }) => {
  await signIn(page, process.env.TENANT_TOKEN ?? '');
  for (const name of ['Overview', 'Quotas', 'Waiting', 'Nodes', 'What-if', 'History']) {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible();
    await page.waitForTimeout(600);
    const text = await page.locator('body').innerText();
    expect(text).not.toMatch(/birch|cedar/);
  }
  await page.screenshot({ path: `${shots}/live-tenant.png`, fullPage: true });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
});

test('a change is tried, and applied with the rights of the viewer', async ({ page }) => {
  await signIn(page, process.env.ADMIN_TOKEN ?? '');
  await page.getByRole('link', { name: 'What-if' }).click();
  await page.getByLabel('Edit a quota').selectOption({ label: 'birch/birch-quota (ElasticQuota)' });
  const text = page.getByLabel('Manifest, YAML or JSON');
  await expect(text).toHaveValue(/kind: ElasticQuota/);
  await text.fill((await text.inputValue()).replace(/max:\n(\s+)nvidia.com\/gpu: \d+/, 'max:\n$1nvidia.com/gpu: 8'));
  await page.getByRole('button', { name: 'Try it' }).click();
  await expect(page.locator('.verdict')).toContainText('Accepted', { timeout: 60_000 });
  await sound(page);
  await page.screenshot({ path: `${shots}/live-what-if-answer.png`, fullPage: true });
  await page.getByRole('button', { name: 'Apply to the cluster' }).click();
  await expect(page.getByText('Applied: ElasticQuota')).toBeVisible();
});
