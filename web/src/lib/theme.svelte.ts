/** Light or dark: what was chosen last, or what the system prefers. */
const KEY = 'quotient-theme';
const preferred = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';

export const theme = $state({ name: localStorage.getItem(KEY) ?? preferred });

document.documentElement.dataset.theme = theme.name;

export function turn(): void {
  theme.name = theme.name === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme.name;
  localStorage.setItem(KEY, theme.name);
}
