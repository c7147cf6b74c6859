#!/bin/sh
# Builds the real Kubernetes that tests and `make cluster` run on, once per version, and prints the folder it is in.
#
# The versions are those of the Go modules beside this file. The programs are kept outside the repository, in
# ${XDG_CACHE_HOME:-~/.cache}/quotient/testenv/<version>-<checksum of the modules>; the first build takes some ten
# minutes on two cores. Where KUBEBUILDER_ASSETS is set, kube-apiserver, etcd and kubectl are taken from there, and
# what is missing there is built.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
kubernetes=$(sed -n 's,^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*,\1,p' "$here/kubernetes/go.mod" | head -n 1)
checksum=$(cat "$here"/*/go.mod "$here"/*/go.sum "$here/kubernetes/wire/main.go" "$here/build.sh" | sha256sum | cut -c 1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/quotient/testenv/$kubernetes-$checksum
assets=${KUBEBUILDER_ASSETS:-}
[ -n "$assets" ] && folder=$folder-assets-$(printf %s "$assets" | sha256sum | cut -c 1-8)

if [ -e "$folder/complete" ]; then
  echo "$folder"
  exit 0
fi

refuse() {
  echo "testenv: $1" >&2
  exit 1
}

mkdir -p "$folder"
# Two test programs that start at once build once: the second waits here.
exec 9>"$folder/lock"
flock 9
if [ -e "$folder/complete" ]; then
  echo "$folder"
  exit 0
fi

command -v go >/dev/null || refuse "the test control plane ($kubernetes) is not in $folder and Go is not installed to build it"

# build MODULE PROGRAM PACKAGE [FLAGS]: from the assets where they have it, else from the module.
build() {
  if [ -n "$assets" ] && [ -x "$assets/$2" ]; then
    ln -sf "$assets/$2" "$folder/$2"
    return
  fi
  echo "testenv: building $2" >&2
  (cd "$here/$1" && CGO_ENABLED=0 GOFLAGS='-buildvcs=false -mod=readonly' nice -n 10 \
    go build -trimpath -ldflags "-s -w ${4:-}" -o "$folder/$2.new" "$3") >&2 ||
    refuse "building $2 failed; the lines above say why. Its modules come from \$GOPROXY ($(go env GOPROXY))"
  mv "$folder/$2.new" "$folder/$2"
}

version="-X k8s.io/component-base/version.gitVersion=$kubernetes"
build etcd etcd go.etcd.io/etcd/server/v3
build kwok kwok sigs.k8s.io/kwok/cmd/kwok
for program in kubectl kube-apiserver kube-controller-manager kube-scheduler; do
  build kubernetes $program k8s.io/kubernetes/cmd/$program "$version"
done

# How objects are laid out in the binary format, as the types of this version say: tests compare it with what we read by.
(cd "$here/kubernetes" && GOFLAGS='-buildvcs=false -mod=readonly' nice -n 10 go run ./wire) >"$folder/layout.txt" ||
  refuse "printing the layout of objects failed; the lines above say why"

# What a kwok node does with its pods and its own heartbeat is data of kwok's module.
stages=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
for stage in node/fast node/heartbeat-with-lease pod/fast; do
  for file in "$stages/$stage"/*.yaml; do
    [ "$(basename "$file")" = kustomization.yaml ] && continue
    printf -- '---\n'
    cat "$file"
    printf '\n'
  done
done >"$folder/stages.yaml"

touch "$folder/complete"
echo "$folder"
