#!/bin/sh
# Ceph's own ceph-erasure-code-tool with plugin=isa, whose ISA-L is inside it and called by name, with libec_isal.so in
# front and without: the same chunk files, and each decodes what the other wrote with m chunks lost.
# Arguments: libec_isal.so, the directory of Debian's plugins. Exits 77 where the tool is missing.
set -eu
door=$1
stock=$2
command -v ceph-erasure-code-tool >/dev/null || { echo "there is no ceph-erasure-code-tool"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export CEPH_CONF=/dev/null CEPH_ARGS="--erasure-code-dir=$stock"

fail() { echo "FAILED: $*"; exit 1; }
# tool PRELOAD ARGUMENTS...
tool() {
  preload=$1
  shift
  LD_PRELOAD=$preload ceph-erasure-code-tool "$@" >log 2>&1 || { cat log; fail "ceph-erasure-code-tool $*"; }
}

# check TECHNIQUE K M STRIPE_UNIT BYTES LOST...: LOST are m chunks.
check() {
  code="plugin=isa,technique=$1,k=$2,m=$3" stripe_unit=$4 bytes=$5 last=$(($2 + $3 - 1))
  shift 5
  all=$(seq -s, 0 "$last")
  left=$(for chunk in $(seq 0 "$last"); do case " $* " in *" $chunk "*) ;; *) echo "$chunk" ;; esac; done | paste -sd,)
  head -c "$bytes" /dev/urandom >object
  for name in stock door; do
    preload=
    [ $name = stock ] || preload=$door
    cp object $name
    tool "$preload" encode "$code" "$stripe_unit" "$all" $name
    rm $name
  done
  for chunk in $(seq 0 "$last"); do cmp stock."$chunk" door."$chunk" || fail "$code: chunk $chunk"; done
  for chunk in "$@"; do rm stock."$chunk" door."$chunk"; done
  tool "" decode "$code" "$stripe_unit" "$left" door
  tool "$door" decode "$code" "$stripe_unit" "$left" stock
  for name in stock door; do
    # What decoding yields is padded to whole stripes.
    head -c "$bytes" $name | cmp - object || fail "$code: decoding what $name wrote"
  done
  rm -f stock* door* object
}

check reed_sol_van 4 2 4096 5000000 1 4
check cauchy 8 3 65536 5000001 0 7 8
check reed_sol_van 2 1 4096 1 0
check cauchy 10 4 131072 3333333 2 3 9 13
check reed_sol_van 7 3 32 100000 0 1 2

# That it was in front: to which file the plugin's calls were bound.
head -c 100000 /dev/urandom >object
LD_DEBUG=bindings LD_DEBUG_OUTPUT="$work/bindings" tool "$door" encode plugin=isa,technique=cauchy,k=4,m=2 4096 0,1,2,3,4,5 object
grep -q "libec_isa.so \[0\] to $door \[0\]: normal symbol \`ec_encode_data'" bindings.* || fail "the plugin does not call $door"
echo "all chunks the same, all objects recovered"
