#!/bin/sh
# Builds Helm 3 and Helm 4 from the Go modules beside this file, once per version, and prints the folder they are in:
# ${XDG_CACHE_HOME:-~/.cache}/quotient/helm/<checksum of the modules>, with `helm3` and `helm4`.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
checksum=$(cat "$here"/*/go.mod "$here"/*/go.sum "$here/build.sh" | sha256sum | cut -c 1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/quotient/helm/$checksum

if [ ! -e "$folder/complete" ]; then
  mkdir -p "$folder"
  # Two test programs that start at once build once: the second waits here.
  exec 9>"$folder/lock"
  flock 9
fi
if [ ! -e "$folder/complete" ]; then
  command -v go >/dev/null || {
    echo "charts: Helm is not in $folder and Go is not installed to build it" >&2
    exit 1
  }
  for major in 3 4; do
    echo "charts: building Helm $major" >&2
    module=helm.sh/helm/v$major
    version=$(sed -n "s,^[[:space:]]*$module \(v[0-9.]*\).*,\1,p" "$here/helm$major/go.mod" | head -n 1)
    flags="-s -w -X $module/internal/version.version=$version"
    # Helm 3 takes the version of Kubernetes that charts are rendered for from the build; Helm 4 knows it.
    minor=$(sed -n 's,^[[:space:]]*k8s.io/client-go v0\.\([0-9]*\)\..*,\1,p' "$here/helm$major/go.mod" | head -n 1)
    [ "$major" = 4 ] || flags="$flags -X $module/pkg/chartutil.k8sVersionMajor=1 -X $module/pkg/chartutil.k8sVersionMinor=$minor"
    (cd "$here/helm$major" && CGO_ENABLED=0 GOFLAGS='-buildvcs=false -mod=readonly' nice -n 10 \
      go build -trimpath -ldflags "$flags" -o "$folder/helm$major.new" "$module/cmd/helm") >&2
    mv "$folder/helm$major.new" "$folder/helm$major"
  done
  touch "$folder/complete"
fi
echo "$folder"
