"""A reader of shard files by docs/format.md that shares no code with ec: its own parser, and the field and matrices of the slow
second opinion in tests/python. The hash functions are those of libxxhash.
"""
import ctypes
import ctypes.util
import os
import pathlib
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python"))
from reference import combined, generator, inverted

MAGIC = b"\x89ecs\r\n\x1a\n"
UNIT = 4096


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
xxhash.XXH3_128bits_withSeed.restype = Hash128
xxhash.XXH3_128bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def checksum(data, seed=0):
    value = xxhash.XXH3_128bits_withSeed(data, len(data), seed)
    return struct.pack(">QQ", value.high, value.low)


def block_checksum(block, uuid, shard, stripe):
    place = uuid + struct.pack("<IQ", shard, stripe)
    return checksum(block, xxhash.XXH3_64bits(place, len(place)))


# --- Headers.

class Header:
    """Of one shard; raises ValueError unless `data` begins with one."""

    def __init__(self, data):
        if len(data) < UNIT or data[:8] != MAGIC:
            raise ValueError("no magic")
        (version, self.bytes, self.uuid, self.k, self.m, self.shard, self.technique, self.keeps_files, self.record, files, self.object_bytes,
         reserved) = struct.unpack_from("<II16sHHHBBIIQQ", data, 8)
        if version != 1 or not UNIT <= self.bytes <= 1 << 20 or self.bytes % UNIT or self.bytes > len(data):
            raise ValueError("version or length")
        if checksum(data[:self.bytes - 16]) != data[self.bytes - 16:self.bytes]:
            raise ValueError("checksum")
        self.n = self.k + self.m
        if self.k < 2 or self.m < 1 or self.n > 255 or self.shard >= self.n or max(self.technique, self.keeps_files) > 1 or reserved:
            raise ValueError("shape")
        at = 64
        self.digests = [data[at + 16 * i:at + 16 * i + 16] for i in range(self.n)]
        at += 16 * self.n
        self.files = []
        for _ in range(files):
            size, length = struct.unpack_from("<QH", data, at)
            self.files.append((data[at + 10:at + 10 + length], size))
            at += 10 + length
        if any(data[at:self.bytes - 16]) or at + 16 <= self.bytes - UNIT or sum(s for _, s in self.files) != self.object_bytes:
            raise ValueError("files")
        self.sums = 16 * self.k if self.keeps_files else 0
        self.block = self.record - self.sums - 16
        self.stripes = -(-self.object_bytes // (self.k * self.block))
        self.file_bytes = 2 * self.bytes + self.stripes * self.record
        # What all shards of the set say alike.
        self.common = data[8:36] + data[38:self.bytes - 16]


def header_at(data, at):
    try:
        return Header(data[at:]) if at >= 0 else None
    except (ValueError, struct.error):
        return None


def headers_of(data):
    """One for each shard that a file says it is."""
    first = header_at(data, 0)
    last = None
    for length in range(UNIT, min(len(data), 1 << 20) + 1, UNIT):
        last = header_at(data, len(data) - length)
        if last and last.bytes == length:
            break
        last = None
    found = [header for header in (first, last) if header]
    if len(found) == 2 and found[0].common == found[1].common and found[0].shard == found[1].shard:
        found.pop()
    return found


# --- Sets.

class Shards:
    """All that the files of a directory hold of one set: `blocks[stripe][shard]`, sound ones alone. Where the set keeps its
    files and a stripe has no sums, what is in the files passes for sound; is_recoverable asks the digests.
    """

    def __init__(self, directory, uuid):
        self.header = None
        self.claims = {}  # uuid: numbers of shards that say they are there
        self.shapes = {}
        contents = []
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            for header in headers_of(data):
                self.claims.setdefault(header.uuid, set()).add(header.shard)
                self.shapes[header.uuid] = 1 if header.keeps_files else header.k
                if header.uuid == uuid:
                    self.header = header
                    contents.append((header, data))
        self.is_proven = True
        shard_files = {data for _, data in contents}
        sums = {}
        self.blocks = [{} for _ in range(self.header.stripes)] if self.header else []
        self.rows = generator(("reed_sol_van", "cauchy")[self.header.technique], self.header.k, self.header.m) if self.header else []
        for header, data in contents:
            for stripe, found in enumerate(self.blocks):
                at = header.bytes + stripe * header.record
                record = data[at:at + header.record]
                if len(record) == header.record and block_checksum(record[:-16], uuid, header.shard, stripe) == record[-16:]:
                    found[header.shard] = record[:header.block]
                    sums[stripe] = record[header.block:-16]
        if self.header and self.header.keeps_files:
            self.read_kept(directory, uuid, sums, shard_files)

    def read_kept(self, directory, uuid, sums, shard_files):
        header, parts, are_there = self.header, [], []
        for name, size in header.files:
            path = os.path.join(os.fsencode(directory), name)
            data = b""
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
            data = b"" if data in shard_files else data[:size]
            parts.append(data.ljust(size, b"\0"))
            are_there += [bytes([1]) * len(data) + bytes(size - len(data))]
        whole = header.stripes * header.k * header.block
        content, is_there = b"".join(parts).ljust(whole, b"\0"), b"".join(are_there).ljust(whole, b"\1")
        digests = [0] * header.k
        for stripe, found in enumerate(self.blocks):
            for i in range(header.k):
                at = (stripe * header.k + i) * header.block
                block = content[at:at + header.block]
                right = block_checksum(block, uuid, i, stripe)
                known = sums[stripe][16 * i:16 * i + 16] if stripe in sums else right
                digests[i] ^= int.from_bytes(known, "big")
                if 0 not in is_there[at:at + header.block] and right == known:
                    found[i] = block
        if len(sums) < header.stripes:
            self.is_proven = [d.to_bytes(16, "big") for d in digests] == header.digests[:header.k]

    def is_recoverable(self):
        return self.header is not None and self.is_proven and all(len(found) >= self.header.k for found in self.blocks)

    def object(self):
        header, parts = self.header, []
        for found in self.blocks:
            rows = sorted(found)[:header.k]
            back = inverted([self.rows[row] for row in rows])
            sources = [found[row] for row in rows]
            parts += [found[i] if i in found else combined(back[i], sources) for i in range(header.k)]
        return b"".join(parts)[:header.object_bytes]

    def has_right_coding(self):
        """With all blocks there: coding blocks and digests are what the format says."""
        header = self.header
        digests = [0] * header.n
        for stripe, found in enumerate(self.blocks):
            data = [found[i] for i in range(header.k)]
            sums = b"".join(block_checksum(block, header.uuid, i, stripe) for i, block in enumerate(data))[:header.sums]
            for i in range(header.n):
                if combined(self.rows[i], data) != found[i]:
                    return False
                covered = found[i] + (sums if i >= header.k else b"")
                digests[i] ^= int.from_bytes(block_checksum(covered, header.uuid, i, stripe), "big")
        return [d.to_bytes(16, "big") for d in digests] == header.digests
