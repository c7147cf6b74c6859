#!/bin/sh
# Builds mdBook, once per version, and prints where it is: ${XDG_CACHE_HOME:-~/.cache}/quotient/mdbook/<version>/bin/mdbook.
# Unoptimised and without its server: it builds in a minute, and the book in two seconds.
set -eu

version=0.5.4
folder=${XDG_CACHE_HOME:-$HOME/.cache}/quotient/mdbook/$version

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -x "$folder/bin/mdbook" ]; then
  echo "book: building mdBook $version" >&2
  CARGO_TARGET_DIR=$folder/build ${CARGO:-cargo} install --quiet --locked --debug --no-default-features --features search \
    --version "$version" --root "$folder" mdbook >&2
  rm -rf "$folder/build"
fi
echo "$folder/bin/mdbook"
