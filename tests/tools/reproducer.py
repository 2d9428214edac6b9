"""A reproducer as the plugin would write it (plugin/codec/checking/reproducer.hpp), for tests of `ectool replay`.

usage: reproducer.py FILE
"""
import pathlib
import sys

MATRIX = [[1, 1, 1], [1, 2, 0xa7]]
LENGTH = 100


def gf_multiply(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11d if a & 0x80 else 0)
        b >>= 1
    return product


def reproducer(accumulate=False, **head):
    """A block of a 2x3 job that a back end got wrong in one bit: byte 17 of target 1. head: pairs of the first line."""
    sources = [bytes((i * 7 + c * 31) % 256 for i in range(LENGTH)) for c in range(3)]
    before = [bytes((i * 5 + r) % 256 if accumulate else 0 for i in range(LENGTH)) for r in range(2)]
    got = []
    for r, row in enumerate(MATRIX):
        target = bytearray(before[r])
        for cell, source in zip(row, sources):
            for i, byte in enumerate(source):
                target[i] ^= gf_multiply(cell, byte)
        got.append(target)
    got[1][17] ^= 1
    pairs = {"backend": "x86", "verb": "accumulate" if accumulate else "transform", "sources": 3, "targets": 2,
             "chunk": 5000, "block": LENGTH, "offset": 4900, **head}
    return b"".join([b"ec_cuda mismatch 2: " + " ".join(f"{name}={value}" for name, value in pairs.items()).encode() + b"\n",
                     bytes([255] * 3 + [3] * 2), *map(bytes, MATRIX), *sources, *(before if accumulate else []), *got])


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(reproducer())
