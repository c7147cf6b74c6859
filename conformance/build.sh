#!/bin/sh
# Builds Kubernetes' own tests of scheduling, once per version, and prints where the program is. It is kept outside the
# repository, in ${XDG_CACHE_HOME:-~/.cache}/quotient/conformance; the first build takes some minutes.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
version=$(sed -n 's|.*k8s.io/kubernetes \(v[0-9.]*\)$|\1|p' "$here/go.mod" | head -n 1)
checksum=$(cat "$here/go.mod" "$here/go.sum" "$here/suite_test.go" "$here/build.sh" | sha256sum | cut -c 1-12)
program=${XDG_CACHE_HOME:-$HOME/.cache}/quotient/conformance/$version-$checksum

if [ ! -x "$program" ]; then
  command -v go >/dev/null || { echo "conformance: Go is not installed, which builds Kubernetes' tests" >&2; exit 1; }
  echo "conformance: building Kubernetes' tests of scheduling, $version" >&2
  mkdir -p "$(dirname "$program")"
  (cd "$here" && CGO_ENABLED=0 GOFLAGS='-buildvcs=false -mod=readonly' go test -c -vet=off -trimpath \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$program.new" .) >&2
  mv "$program.new" "$program"
fi
echo "$program"
