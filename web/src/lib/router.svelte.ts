/** The page is named in the address after `#`, so that it can be bookmarked and gone back to. */
function read(): { path: string[]; query: URLSearchParams } {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { path: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

export const route = $state(read());

addEventListener('hashchange', () => {
  const now = read();
  route.path = now.path;
  route.query = now.query;
  document.getElementById('main')?.focus({ preventScroll: true });
  scrollTo(0, 0);
});

export function podLink(namespace: string, name: string): string {
  return `#/pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}
