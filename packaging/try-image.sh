#!/bin/sh
# Runs the image of `make image` in a container: as its own user, with a read-only file system and no network. Needs root.
#
#   packaging/try-image.sh LAYOUT VERSION
set -eu

layout=$1
version=$2
missing=
for program in umoci runc; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
  # shellcheck disable=SC2086 # Several packages.
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >/dev/null
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
umoci unpack --image "$layout:$version" "$folder/bundle" >&2
# umoci writes the configuration of a container that has a terminal and may write.
sed -i -e 's/"terminal": *true/"terminal": false/' -e 's/"path": *"rootfs"/"path": "rootfs", "readonly": true/' \
  -e 's,"/quotient",&\, "version",' "$folder/bundle/config.json"
said=$(runc --root "$folder/state" run -b "$folder/bundle" "quotient-$$")
echo "the container says: $said"
case $said in
  "quotient $version, commit "*) ;;
  *) echo "image: expected quotient $version" >&2; exit 1 ;;
esac
grep -q '"uid": *65532' "$folder/bundle/config.json" || { echo 'image: it does not run as user 65532' >&2; exit 1; }
