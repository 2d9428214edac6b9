#!/bin/sh
# A process with libec_isal.so that calls none of its functions has the files and threads that it has without.
# Argument: libec_isal.so
set -eu
door=$1

found=$(mktemp)
trap 'rm -f "$found"' EXIT
# Into a file: of a pipe the shell may still have an end open when ls looks.
look() {
  sh -c 'ls /proc/$$/task | wc -l >"$0"; ls -l /proc/$$/fd >>"$0"' "$found" 2>&1 </dev/null
  sed 's/.* \([0-9]* ->\)/\1/; s/\[[0-9]*\]//; /proc/d' "$found"
}
without=$(look)
with=$(export LD_PRELOAD="$door"; look)
[ "$with" = "$without" ] || { printf 'FAILED: with\n%s\nwithout\n%s\n' "$with" "$without"; exit 1; }
LD_PRELOAD=$door cat /proc/self/maps | grep -q "$door" || { echo "FAILED: it was not loaded"; exit 1; }
