#!/bin/sh
# Ceph's own ceph-erasure-code-tool with plugin=isa and plugin=cuda: the same chunk files, and each decodes what
# the other wrote with m chunks lost.
# Arguments: the directory of libec_cuda.so, the directory of Debian's plugins. Exits 77 where the tool is missing.
set -eu
ours=$1
stock=$2
command -v ceph-erasure-code-tool >/dev/null || { echo "there is no ceph-erasure-code-tool"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir plugins
ln -s "$stock"/libec_*.so "$ours"/libec_cuda.so plugins/
export CEPH_CONF=/dev/null CEPH_ARGS="--erasure-code-dir=$work/plugins"

fail() { echo "FAILED: $*"; exit 1; }
tool() { ceph-erasure-code-tool "$@" >log 2>&1 || { cat log; fail "ceph-erasure-code-tool $*"; }; }

# check TECHNIQUE K M STRIPE_UNIT BYTES LOST...: LOST are m chunks.
check() {
  technique=$1 k=$2 m=$3 stripe_unit=$4 bytes=$5
  shift 5
  lost=" $* "
  code="technique=$technique,k=$k,m=$m"
  head -c "$bytes" /dev/urandom >object
  all="" left=""
  chunk=0
  while [ $chunk -lt $((k + m)) ]; do
    all="$all${all:+,}$chunk"
    case "$lost" in *" $chunk "*) ;; *) left="$left${left:+,}$chunk" ;; esac
    chunk=$((chunk + 1))
  done
  for plugin in isa cuda; do
    cp object $plugin
    tool encode "plugin=$plugin,$code" "$stripe_unit" "$all" $plugin
    rm $plugin
  done
  for chunk in $(echo "$all" | tr , ' '); do
    cmp isa."$chunk" cuda."$chunk" || fail "$code: chunk $chunk"
  done
  for chunk in $lost; do rm isa."$chunk" cuda."$chunk"; done
  tool decode "plugin=cuda,$code" "$stripe_unit" "$left" isa
  tool decode "plugin=isa,$code" "$stripe_unit" "$left" cuda
  for plugin in isa cuda; do
    # What decoding yields is padded to whole stripes.
    head -c "$bytes" $plugin | cmp - object || fail "$code: decoding what $plugin wrote"
  done
  rm -f isa* cuda* object
}

check reed_sol_van 4 2 4096 5000000 1 4
check cauchy 8 3 65536 5000001 0 7 8
check reed_sol_van 2 1 4096 1 0
check cauchy 10 4 131072 3333333 2 3 9 13
echo "all chunks the same, all objects recovered"
