#!/bin/sh
# Ceph's own ceph-erasure-code-tool with plugin=isa, whose ISA-L is inside it and called by name, with libec_isal.so in
# front and without: the same chunk files, and each decodes what the other wrote with m chunks lost.
# Arguments: libec_isal.so, the directory of Debian's plugins. Exits 77 where the tool is missing.
set -eu
door=$1
stock=$2
. "$(dirname "$0")/../ceph/erasure_code_tool.sh"
export CEPH_ARGS="--erasure-code-dir=$stock"

# plugins PRELOAD COMMAND..: none for no preload.
plugins() {
  preload=$1
  shift
  [ "$preload" != none ] || preload=
  LD_PRELOAD=$preload "$@"
}

# check TECHNIQUE K M STRIPE_UNIT BYTES LOST...: LOST are m chunks.
check() {
  code="plugin=isa,technique=$1,k=$2,m=$3" chunks=$(($2 + $3))
  shift 3
  compare none "$code" "$door" "$code" "$chunks" "$@"
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
