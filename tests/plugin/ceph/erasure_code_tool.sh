# What the tests with Ceph's own ceph-erasure-code-tool share, to be read by them. They define `plugins SIDE COMMAND..`,
# which runs a command with the plugins of a side. Exits 77 where the tool is missing.
command -v ceph-erasure-code-tool >/dev/null || { echo "there is no ceph-erasure-code-tool"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export CEPH_CONF=/dev/null

fail() { echo "FAILED: $*"; exit 1; }
# tool SIDE ARGUMENT..
tool() {
  side=$1
  shift
  plugins "$side" ceph-erasure-code-tool "$@" >log 2>&1 || { cat log; fail "ceph-erasure-code-tool $* by $side"; }
}

# compare SIDE_A PROFILE_A SIDE_B PROFILE_B CHUNKS STRIPE_UNIT BYTES LOST..: both write the same chunk files, and each
# decodes what the other wrote without the chunks that are lost.
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
