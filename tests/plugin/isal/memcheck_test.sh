#!/bin/sh
# libec_isal.so beside the real library under valgrind's memcheck: no error and no definite leak.
# Argument: isal_door_test. Exits 77 where there is no valgrind.
set -eu
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
# Without the children that are meant to end, and what takes minutes.
EC_ISAL_CALLS=400 exec valgrind --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
  --show-leak-kinds=definite --num-callers=30 "$1" --gtest_filter='-*IsRefused*:*LongChunks*'
