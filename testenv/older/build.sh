#!/bin/sh
# build.sh VERSION: builds an older Kubernetes that tests run on, once, and prints the folder it is in.
#
# VERSION is one of the folders beside this file, such as 1.34. Only kube-apiserver and kube-controller-manager are of
# that version; etcd, kwok, kubectl and the rest are those of the newest (../build.sh), which work with it. A build takes
# some five minutes on two cores.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
refuse() {
  echo "testenv: $1" >&2
  exit 1
}

known=$(cd "$here" && echo */ | tr -d /)
[ -n "${1:-}" ] && [ -e "$here/$1/go.mod" ] || refuse "there is no Kubernetes \"${1:-}\": expected one of $known"
newest=$("$here/../build.sh")
kubernetes=$(sed -n 's,^require k8s.io/kubernetes \(v[0-9.]*\).*,\1,p; s,^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*,\1,p' "$here/$1/go.mod" | head -n 1)
checksum=$(cat "$here/$1/go.mod" "$here/$1/go.sum" | sha256sum | cut -c 1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/quotient/testenv/$kubernetes-$checksum

mkdir -p "$folder"
# Two test programs that start at once build once: the second waits here.
exec 9>"$folder/lock"
flock 9
# What is shared may have moved since.
for shared in etcd kwok kubectl stages.yaml layout.txt; do
  ln -sfn "$newest/$shared" "$folder/$shared"
done
if [ -e "$folder/complete" ]; then
  echo "$folder"
  exit 0
fi

command -v go >/dev/null || refuse "Kubernetes $kubernetes is not in $folder and Go is not installed to build it"
for program in kube-apiserver kube-controller-manager; do
  echo "testenv: building $program $kubernetes" >&2
  (cd "$here/$1" && CGO_ENABLED=0 GOFLAGS='-buildvcs=false -mod=readonly' nice -n 19 \
    go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes" \
    -o "$folder/$program.new" "k8s.io/kubernetes/cmd/$program") >&2 ||
    refuse "building $program $kubernetes failed; the lines above say why"
  mv "$folder/$program.new" "$folder/$program"
done
touch "$folder/complete"
echo "$folder"
