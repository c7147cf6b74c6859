#!/bin/sh
# Puts a release together in dist/: archives of the binaries with completions and manual pages, the chart, manifests, the krew
# plugin, and checksums of everything. `make release` calls it after `make image`. DIST names another folder than dist/.
# Archives hold files and folders only: krew unpacks nothing else, and links the plugin's name to the program itself.
#
#   packaging/release.sh VERSION TARGET-FOLDER PROFILE-FOLDER TARGET…
set -eu

version=$1
built=$2
profile=$3
shift 3
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
dist=${DIST:-$here/dist}
: "${SOURCE_DATE_EPOCH:?is set by make release}"

# pack ARCHIVE FOLDER ENTRY: the same bytes for the same files, whoever packs them and when.
pack() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$2" -cf - "$3" | gzip -9n >"$1"
}

# A binary of this machine says what goes with all of them.
native=
for target in "$@"; do
  case $target in "$(uname -m)"-*) native=$built/$target/$profile/quotient ;; esac
done
[ -n "$native" ] || {
  echo "release: none of $* runs on this machine ($(uname -m)), which is needed for completions and manual pages" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/common/completions" "$work/common/man"
for shell in bash zsh fish; do
  "$native" completion $shell >"$work/common/completions/quotient.$shell"
done
"$native" man "$work/common/man"
cp "$here/LICENSE" "$here/README.md" "$here/CHANGELOG.md" "$work/common/"

krew=$dist/quotient.krew.yaml
sed "s/@VERSION@/$version/" "$here/packaging/krew.yaml" >"$krew"
for target in "$@"; do
  case $target in aarch64-*) architecture=arm64 ;; *) architecture=amd64 ;; esac
  archive=quotient-$version-linux-$architecture.tar.gz
  mkdir "$work/$architecture"
  cp -r "$work/common/." "$work/$architecture/"
  cp "$built/$target/$profile/quotient" "$work/$architecture/quotient"
  pack "$dist/$archive" "$work/$architecture" .
  cat >>"$krew" <<END
  - selector:
      matchLabels: {os: linux, arch: $architecture}
    uri: https://example.com/quotient/releases/$version/$archive
    sha256: $(sha256sum "$dist/$archive" | cut -d ' ' -f 1)
    bin: quotient
END
done

mkdir "$work/chart"
cp -r "$here/charts/quotient" "$work/chart/quotient"
pack "$dist/quotient-$version.tgz" "$work/chart" quotient
"$native" install >"$dist/quotient-$version.yaml"
cp "$here/charts/quotient/files/alerts.yaml" "$dist/alerts.yaml"
cp "$here/charts/quotient/files/grafana-dashboard.json" "$dist/grafana-dashboard.json"

cd "$dist"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
cat SHA256SUMS
