#!/bin/sh
# A process with libec_isal.so that calls none of its functions has the files and threads that it has without.
# Argument: libec_isal.so
set -eu
door=$1

look='ls /proc/$$/task | wc -l; ls -l /proc/$$/fd | sed "s/.* \([0-9]* ->\)/\1/; s/\[[0-9]*\]//; /proc/d"'
without=$(sh -c "$look" 2>&1 </dev/null)
with=$(LD_PRELOAD=$door sh -c "$look" 2>&1 </dev/null)
[ "$with" = "$without" ] || { printf 'FAILED: with\n%s\nwithout\n%s\n' "$with" "$without"; exit 1; }
LD_PRELOAD=$door cat /proc/self/maps | grep -q "$door" || { echo "FAILED: it was not loaded"; exit 1; }
