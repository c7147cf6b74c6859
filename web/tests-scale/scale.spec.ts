/** 5,000 nodes and 50,000 pods of which 10,000 are pending: what the pages and the server cost. */
import { expect, test, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';

const large = () => process.env.LARGE ?? '';

/** Seconds of CPU that the server has used. The kernel counts hundredths. */
function serverSeconds(): number {
  const fields = readFileSync(`/proc/${process.env.LARGE_PID}/stat`, 'utf8').replace(/^.*\) /, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** The longest time between two frames while something is done at each. */
function slowestFrame(page: Page, frames: number, at: (frame: number, of: number) => void): Promise<number> {
  return page.evaluate(
    async ([frames, source]) => {
      const act = new Function(`return (${source})`)() as (frame: number, of: number) => void;
      let slowest = 0;
      let last = performance.now();
      for (let frame = 1; frame <= Number(frames); frame += 1) {
        act(frame, Number(frames));
        await new Promise((resolve) => requestAnimationFrame(resolve));
        slowest = Math.max(slowest, performance.now() - last);
        last = performance.now();
      }
      return slowest;
    },
    [frames, at.toString()],
  );
}

test('pages stay responsive and an idle server costs nothing', async ({ page }) => {
  await page.goto(large());
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  console.log(`first contentful paint: ${Math.round(paint)} ms`);
  expect(paint).toBeLessThan(1000);
  for (const [link, ready] of [
    ['Quotas', 'Elastic quotas'],
    ['Waiting', '10,000 pending pods'],
    ['Nodes', '1,000 nodes'],
    ['History', 'GPU-hours by team and card'],
  ]) {
    const begun = performance.now();
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: link }).click();
    await expect(page.getByText(ready).first()).toBeVisible();
    console.log(`${link}: shown after ${Math.round(performance.now() - begun)} ms`);
    expect(performance.now() - begun).toBeLessThan(3000);
    if (link === 'Nodes') {
      const slowest = await slowestFrame(page, 60, (frame, of) => scrollTo(0, (document.documentElement.scrollHeight / of) * frame));
      console.log(`Nodes: the slowest frame of a scroll over 5,000 nodes: ${Math.round(slowest)} ms`);
      await page.screenshot({ path: 'test-results/screenshots/large-nodes.png' });
    }
    if (link === 'Waiting') {
      const slowest = await slowestFrame(page, 60, (frame, of) => {
        const list = document.querySelector('[aria-label="Pending pods"]');
        if (list) list.scrollTop = (list.scrollHeight / of) * frame;
      });
      console.log(`Waiting: the slowest frame of a scroll over 10,000 rows: ${Math.round(slowest)} ms`);
      expect(slowest).toBeLessThan(250);
    }
  }
  const before = serverSeconds();
  await page.waitForTimeout(20_000);
  const part = (serverSeconds() - before) / 20;
  console.log(`the server, while nothing changes and a page is open: ${(part * 100).toFixed(2)} % of a core`);
  expect(part).toBeLessThan(0.05);
});
