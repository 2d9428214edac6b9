"""A reproducer as the plugin would write it (plugin/codec/checking/reproducer.hpp), for tests of `ectool replay`.

usage: reproducer.py FILE
"""
import pathlib
import struct
import sys

MATRIX = [[1, 1, 1], [1, 2, 0xa7]]
LENGTH = 100
RESIDENCES = {"pageable": 0, "pinned": 1, "device": 2}


def gf_multiply(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11d if a & 0x80 else 0)
        b >>= 1
    return product


def reproducer(residence="pageable", accumulate=False, wrong_judge=False, backend=b"x86", **head):
    """A block of a 2x3 job that a back end got wrong in one bit: byte 17 of target 1. head: numbers by their names."""
    sources = [bytes((i * 7 + c * 31) % 256 for i in range(LENGTH)) for c in range(3)]
    before = [bytes((i * 5 + r) % 256 if accumulate else 0 for i in range(LENGTH)) for r in range(2)]
    expected = []
    for r, row in enumerate(MATRIX):
        right = bytearray(before[r])
        for cell, source in zip(row, sources):
            for i, byte in enumerate(source):
                right[i] ^= gf_multiply(cell, byte)
        expected.append(right)
    got = [bytearray(right) for right in expected]
    got[1][17] ^= 1
    if wrong_judge:
        expected[0][0] ^= 1
    numbers = {"verb": int(accumulate), "sources": 3, "targets": 2, "block_bytes": LENGTH, "block_offset": 4900,
               "chunk_bytes": 5000, "stripes": 1, **head}
    places = [(RESIDENCES[residence], 4095 if c < 3 else 3) for c in range(5)]
    return b"".join([b"ec_dump1", struct.pack("<4I3Q", *numbers.values()),
                     struct.pack("16s16s", backend, b"isal"),
                     *(struct.pack("<2H", *place) for place in places), *map(bytes, MATRIX), *sources,
                     *(before if accumulate else []), *got, *expected])


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(reproducer())
