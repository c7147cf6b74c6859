#!/bin/sh
# Counts the instructions of the named cases of counts.rs and sets them beside those in counts.tsv. Fails when a case
# takes 10 % more. `counts.sh record` writes the numbers into counts.tsv instead: do that in the commit that explains why.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
table=$here/counts.tsv
command -v valgrind >/dev/null || {
  echo "counts: valgrind is not installed (Debian: apt-get install valgrind)" >&2
  exit 2
}
built=$(cd "$here" && "${CARGO:-cargo}" bench --quiet --locked --package quotient-engine --bench counts --no-run \
  --message-format=json | sed -n 's/.*"executable":"\([^"]*counts[^"]*\)".*/\1/p' | tail -n 1)
[ -x "$built" ] || { echo "counts: the benchmark was not built" >&2; exit 2; }

count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect='*counts::measured*' \
    "$built" "$1" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

status=0
[ "${1:-}" = record ] && : >"$table.new" || printf '%-20s %15s %15s %8s\n' case recorded now change
for case in plain-fill all-different-fill verdict reclaim reclaim-all reclaim-all-fair reclaim-devices gang fork; do
  now=$(count "$case")
  [ -n "$now" ] || { echo "counts: $case was not counted" >&2; exit 2; }
  if [ "${1:-}" = record ]; then
    printf '%s\t%s\n' "$case" "$now" >>"$table.new"
    continue
  fi
  recorded=$(awk -v case="$case" '$1 == case { print $2 }' "$table")
  permille=$(((now - recorded) * 1000 / recorded))
  printf '%-20s %15s %15s %7s%%\n' "$case" "$recorded" "$now" "$(awk -v p="$permille" 'BEGIN { printf "%+.1f", p / 10 }')"
  [ "$permille" -le 100 ] || { echo "counts: $case takes more than 10 % more instructions" >&2; status=1; }
done
[ "${1:-}" = record ] && mv "$table.new" "$table"
exit "$status"
