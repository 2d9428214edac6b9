#!/usr/bin/env bash
# Ceph's own ceph-erasure-code-tool, with two plugins of which each must write the same chunk files as the other and
# decode them with m chunks lost: plugin=cuda beside isa, and ours under Ceph's names beside Ceph's own. One of each kind:
# all shapes, functions and keys are in roles_test, which loads plugins by itself.
# Arguments: the directory of libec_cuda.so, the directory of Debian's plugins. Exits 77 where the tool is missing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../common/prelude"
ours=$1
stock=$2
command -v ceph-erasure-code-tool >/dev/null || skip "there is no ceph-erasure-code-tool"

cd "$work"
export CEPH_CONF=/dev/null

mkdir stock adopted
ln -s "$stock"/libec_*.so stock/
ln -sf "$ours"/libec_cuda.so stock/
cp -P stock/* adopted/
for name in isa jerasure; do ln -sf "$ours"/libec_cuda.so adopted/libec_$name.so; done

# tool DIRECTORY ARGUMENT..: with the plugins of that directory.
tool() {
  directory=$1
  shift
  CEPH_ARGS="--erasure-code-dir=$work/$directory" ceph-erasure-code-tool "$@" >log 2>&1 ||
    { cat log; fail "ceph-erasure-code-tool $* by $directory"; }
  [ "$directory" = stock ] || grep -q "in the place of" log || fail "ours is not loaded"
}

# compare DIRECTORY_A PROFILE_A DIRECTORY_B PROFILE_B CHUNKS STRIPE_UNIT BYTES LOST..: both write the same chunk files,
# and each decodes what the other wrote without the chunks that are lost.
compare() {
  a=$1 profile_a=$2 b=$3 profile_b=$4 last=$(($5 - 1)) stripe_unit=$6 bytes=$7
  shift 7
  all=$(seq -s, 0 "$last")
  left=$(for chunk in $(seq 0 "$last"); do case " $* " in *" $chunk "*) ;; *) echo "$chunk" ;; esac; done | paste -sd,)
  head -c "$bytes" /dev/urandom >object
  cp object one
  cp object two
  tool "$a" encode "$profile_a" "$stripe_unit" "$all" one
  tool "$b" encode "$profile_b" "$stripe_unit" "$all" two
  rm one two
  for chunk in $(seq 0 "$last"); do
    cmp one."$chunk" two."$chunk" || fail "$profile_a by $a and $profile_b by $b: chunk $chunk"
  done
  for chunk in "$@"; do rm one."$chunk" two."$chunk"; done
  tool "$b" decode "$profile_b" "$stripe_unit" "$left" one
  tool "$a" decode "$profile_a" "$stripe_unit" "$left" two
  for file in one two; do
    # What decoding yields is padded to whole stripes.
    head -c "$bytes" $file | cmp - object || fail "$profile_a by $a and $profile_b by $b: decoding $file"
  done
  rm -f one* two* object
}

compare stock plugin=isa,technique=reed_sol_van,k=4,m=2 stock plugin=cuda,technique=reed_sol_van,k=4,m=2 6 4096 5000000 1 4
compare stock plugin=isa,technique=cauchy,k=8,m=3 stock plugin=cuda,technique=cauchy,k=8,m=3 11 65536 5000001 0 7 8

# adopt PROFILE CHUNKS STRIPE_UNIT BYTES LOST...: Ceph's own against ours under its name.
adopt() {
  profile=$1
  shift
  compare stock "$profile" adopted "$profile" "$@"
}
adopt plugin=isa,technique=cauchy,k=8,m=3 11 4096 1000001 2 3 9
adopt plugin=jerasure,technique=reed_sol_van,k=8,m=3,jerasure-per-chunk-alignment=true 11 65536 3000001 1 2 8
adopt plugin=jerasure,technique=reed_sol_r6_op,k=6,m=2 8 16384 1000003 0 7
# By Ceph's own file, beside ours.
adopt plugin=jerasure,technique=cauchy_good,k=4,m=2,packetsize=64 6 4096 100000 0 1
# Over jerasure, which lrc asks for by itself.
adopt plugin=lrc,k=4,m=2,l=3 8 4096 1000000 0
# Clay codes pairs of chunks by others, and hands them keys of its own.
adopt plugin=clay,k=4,m=2,scalar_mds=isa,technique=reed_sol_van 6 16384 1000000 0 4
adopt plugin=clay,k=4,m=2,scalar_mds=jerasure,technique=reed_sol_van 6 16384 1000000 1 2
for technique in reed_sol_van reed_sol_r6_op; do
  compare stock plugin=jerasure,technique=$technique,k=4,m=2 stock plugin=cuda,technique=jerasure_$technique,k=4,m=2 \
    6 4096 300000 1 5
done
echo "all chunks the same, all objects recovered"
