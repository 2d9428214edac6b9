"""A reader of shard files by docs/format.md that shares no code with ec: its own parser, and the field and matrices of the slow
second opinion in tests/python. The hash functions are those of libxxhash and ISA-L.
"""
import ctypes
import ctypes.util
import io
import itertools
import os
import pathlib
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python"))
from program import contents
from reference import combined, generator, inverted

MAGIC = b"\x89ecs\r\n\x1a\n"
UNIT = 4096


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
xxhash.XXH3_128bits_withSeed.restype = Hash128
xxhash.XXH3_128bits_withSeed.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64]
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
isal = ctypes.CDLL(ctypes.util.find_library("isal"))
isal.crc32_iscsi.restype = ctypes.c_uint32


def checksum(data, seed=0):
    value = xxhash.XXH3_128bits_withSeed(data, len(data), seed)
    return struct.pack(">QQ", value.high, value.low)


def crc32c(data):
    """From 0 on, without an inversion."""
    return isal.crc32_iscsi(data, len(data), 0)


# The second value is of a loop over bits: ec calls ISA-L too, which has other code for long parts.
assert crc32c(b"123456789") == 0x58E3FA20, "another CRC than the one of docs/format.md"
assert crc32c((bytes(range(251)) * 262)[:65549]) == 0xCE5E560C, "ISA-L gives another CRC than the one of docs/format.md"


def block_checksum(block, uuid, shard, stripe):
    place = uuid + struct.pack("<IQ", shard, stripe)
    return checksum(block, xxhash.XXH3_64bits(place, len(place)))


# --- Headers.

class AnyHeader:
    """What the headers of both formats have; raises ValueError unless `data` begins with one of this version."""

    def __init__(self, data):
        if len(data) < UNIT or data[:8] != MAGIC:
            raise ValueError("no magic")
        (version, self.bytes, self.uuid, self.k, self.m, self.shard, self.technique, self.keeps_files,
         *self.rest) = struct.unpack_from("<II16sHHHBBIIQQ", data, 8)
        if version != self.version or not UNIT <= self.bytes <= self.longest or self.bytes % UNIT or self.bytes > len(data):
            raise ValueError("version or length")
        if checksum(data[:self.bytes - 16]) != data[self.bytes - 16:self.bytes]:
            raise ValueError("checksum")
        self.n = self.k + self.m
        if self.k < 2 or self.m < 1 or self.n > 255 or self.shard >= self.n or max(self.technique, self.keeps_files) > 1:
            raise ValueError("shape")
        # What all shards of the set say alike.
        self.common = data[8:36] + data[38:self.bytes - 16]


class Header(AnyHeader):
    """Of one shard of format 1."""
    version, longest = 1, 1 << 20

    def __init__(self, data):
        super().__init__(data)
        self.record, files, self.object_bytes, reserved = self.rest
        if reserved:
            raise ValueError("reserved")
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

    def paths(self):
        return [name for name, _ in self.files]


class Entry:
    """A file or a directory of a set of format 2. `places`: where the bytes of a file are, as (block, offset in it, bytes)."""

    def __init__(self, data, at):
        self.kind, self.mode, length, self.size, self.seconds, self.nanoseconds, self.digest = struct.unpack_from("<BHHQqI16s", data, at)
        self.path = data[at + 41:at + 41 + length]
        self.end = at + 41 + length
        self.places = []
        if (self.kind > 1 or self.mode > 0o7777 or self.nanoseconds >= 10**9 or not 0 < len(self.path) == length < 4096 or
                (self.kind == 1 and (self.size or any(self.digest))) or not all(map(is_name, self.path.split(b"/")))):
            raise ValueError("entry")

    def is_file(self):
        return self.kind == 0


def is_name(name):
    return 0 < len(name) <= 255 and name not in (b".", b"..") and not set(name) & set(b"\0/")


class KeptHeader(AnyHeader):
    """The same of format 2, whose data lies in blocks of files."""
    version, longest = 2, 64 << 20

    def __init__(self, data):
        super().__init__(data)
        self.block, entries, self.object_bytes, self.stripes = self.rest
        if (data[self.bytes - 20:self.bytes - 16] != data[12:16] or self.shard < self.k or self.keeps_files != 1 or
                self.block not in [1 << i for i in range(9, 17)] or not entries):
            raise ValueError("shape")
        at = 64
        self.digests = [data[at + 16 * i:at + 16 * i + 16] for i in range(self.m)]
        at += 16 * self.m
        length = struct.unpack_from("<H", data, at)[0]
        self.name = data[at + 2:at + 2 + length]
        at += 2 + length
        self.entries = []
        for _ in range(entries):
            self.entries.append(Entry(data, at))
            at = self.entries[-1].end
        if any(data[at:self.bytes - 20]) or at + 20 <= self.bytes - UNIT or not is_name(self.name):
            raise ValueError("entries")
        self.lay_out()
        self.sums = 20 * self.k
        self.record = self.block + self.sums + 16

    def paths(self):
        return [entry.path for entry in self.entries if entry.is_file()]

    def lay_out(self):
        """Where files lie, and `used`: so many bytes of each block. Block b is block b % stripes of slice b // stripes."""
        paths = [entry.path for entry in self.entries]
        files = {entry.path for entry in self.entries if entry.is_file()}
        if (len(set(paths)) < len(paths) or any(path[:i] in files for path in paths for i, c in enumerate(path) if c == ord("/")) or
                sum(entry.size for entry in self.entries) != self.object_bytes or self.object_bytes > 1 << 60):
            raise ValueError("paths or lengths")
        if self.object_bytes > 1 << 36:
            raise ValueError("too large for this reader")
        self.used = []
        shared = None
        for entry in self.entries:
            if 0 < entry.size < self.block:
                if shared is None or self.used[shared] + entry.size > self.block:
                    shared = len(self.used)
                    self.used.append(0)
                entry.places.append((shared, self.used[shared], entry.size))
                self.used[shared] += entry.size
            elif entry.size:
                for at in range(0, entry.size, self.block):
                    entry.places.append((len(self.used), 0, min(self.block, entry.size - at)))
                    self.used.append(entry.places[-1][2])
        if self.stripes != max(1, -(-len(self.used) // self.k)):
            raise ValueError("columns")
        self.used += [0] * (self.k * self.stripes - len(self.used))


def header_at(data, at):
    for kind in (Header, KeptHeader):
        try:
            return kind(data[at:]) if at >= 0 else None
        except (ValueError, struct.error):
            pass
    return None


def headers_of(data):
    """One for each shard that a file says it is."""
    first = header_at(data, 0)
    last = None
    for length in [*range(UNIT, min(len(data), 1 << 20) + 1, UNIT), int.from_bytes(data[-20:-16], "little")]:
        last = header_at(data, len(data) - length)
        if last and last.bytes == length:
            break
        last = None
    found = [header for header in (first, last) if header]
    if len(found) == 2 and found[0].common == found[1].common and found[0].shard == found[1].shard:
        found.pop()
    return found


def resealed(shard, fields):
    """A shard of format 1 with other bytes at these places of its headers, whose checksums are right."""
    size = headers_of(shard)[0].bytes
    front = bytearray(shard[:size])
    for at, content in fields.items():
        front[at:at + len(content)] = content
    front[-16:] = checksum(bytes(front[:-16]))
    return bytes(front) + shard[size:-size] + bytes(front)


# --- Sets.

def records(header, data):
    """The sound records of a shard's file: number of the stripe, block, sums of its data."""
    for stripe in range(header.stripes):
        record = data[header.bytes + stripe * header.record:][:header.record]
        if len(record) == header.record and block_checksum(record[:-16], header.uuid, header.shard, stripe) == record[-16:]:
            yield stripe, record[:header.block], record[header.block:-16]


class Set:
    """What there is of a set in its shard files, and in its files beneath the directories.

    `blocks[column][row]` is a sound block, with zeros to its full length; a column of format 1 is a stripe. `sums[column]` are the
    sums of its data where the record of a coding shard is sound. Where a stripe of format 1 has no sums, what is in its files passes
    for sound; is_recoverable asks the digests. `files[path]` is what has that path, or nothing.
    """

    def __init__(self, directories, uuid=None):
        directories = [os.fsencode(directory) for directory in directories]
        found = {os.path.join(directory, name): data for directory in directories for name, data in contents(directory).items()}
        # Shards are looked for in the directories themselves.
        shards = [(header, data) for path, data in sorted(found.items()) if os.path.dirname(path) in directories for header in headers_of(data)]
        self.claims = {}  # uuid: numbers of shards that say they are there
        self.needed = {}  # so many of them
        for header, _ in shards:
            self.claims.setdefault(header.uuid, set()).add(header.shard)
            self.needed[header.uuid] = 1 if header.keeps_files else header.k
        self.header = next((header for header, _ in shards if uuid in (header.uuid, None)), None)
        if not self.header:
            return
        header = self.header
        self.rows = generator(("reed_sol_van", "cauchy")[header.technique], header.k, header.m)
        self.blocks = [{} for _ in range(header.stripes)]
        self.sums = {}
        shards = [(of_file, data) for of_file, data in shards if of_file.uuid == header.uuid]
        for of_file, data in shards:
            for column, block, sums in records(of_file, data):
                self.blocks[column][of_file.shard], self.sums[column] = block, sums
        self.is_proven = True
        self.found = found
        self.files = {}
        if header.keeps_files:
            for path, directory in itertools.product(header.paths(), directories):
                data = found.get(os.path.join(directory, path))
                # In format 1 a shard of another set is a damaged file.
                if data is not None and not (headers_of(data) if header.version == 2 else data in [of_set for _, of_set in shards]):
                    self.files.setdefault(path, data)
            self.read_files()

    def read_files(self):
        header = self.header
        if header.version == 2:
            for block in self.unused():
                self.blocks[block % header.stripes][block // header.stripes] = bytes(header.block)
            self.take(self.blocks_of(self.files))
            return
        parts, are_there = [], []
        for name, size in header.files:
            data = self.files.get(name, b"")[:size]
            parts.append(data.ljust(size, b"\0"))
            are_there.append(bytes([1]) * len(data) + bytes(size - len(data)))
        whole = header.stripes * header.k * header.block
        content, is_there = b"".join(parts).ljust(whole, b"\0"), b"".join(are_there).ljust(whole, b"\1")
        digests = [0] * header.k
        for (stripe, found), i in itertools.product(enumerate(self.blocks), range(header.k)):
            at = (stripe * header.k + i) * header.block
            block = content[at:at + header.block]
            right = block_checksum(block, header.uuid, i, stripe)
            known = self.sums[stripe][16 * i:16 * i + 16] if stripe in self.sums else right
            digests[i] ^= int.from_bytes(known, "big")
            if 0 not in is_there[at:at + header.block] and right == known:
                found[i] = block
        if len(self.sums) < header.stripes:
            self.is_proven = [d.to_bytes(16, "big") for d in digests] == header.digests[:header.k]

    # --- Of format 2 alone: numbers of data blocks.

    def unused(self):
        return [b for b, used in enumerate(self.header.used) if not used]

    def lost_blocks(self):
        stripes = self.header.stripes
        return [b for b in range(len(self.header.used)) if b // stripes not in self.blocks[b % stripes]]

    def sum_of(self, block):
        """What the checksum of a data block must be, or none if that is not known."""
        sums = self.sums.get(block % self.header.stripes)
        at = 20 * (block // self.header.stripes)
        return sums and sums[at:at + 16]

    def blocks_of(self, files):
        """Used bytes of all blocks that are there whole, as the files have them."""
        parts, missing = {}, set()
        for entry in self.header.entries:
            data = files.get(entry.path, b"")
            for i, (block, offset, size) in enumerate(entry.places):
                at = i * self.header.block
                part = data[at:at + size]
                parts.setdefault(block, bytearray(self.header.used[block]))[offset:offset + len(part)] = part
                if len(part) < size:
                    missing.add(block)
        return {block: bytes(data) for block, data in parts.items() if block not in missing}

    def take(self, blocks):
        """Notes those that are right: by their sums, or without any by the digests of their files."""
        for block, data in blocks.items():
            right = self.sum_of(block)
            if right == checksum(data) if right else all(self.digest_of(entry, blocks) == entry.digest for entry in self.header.entries
                                                         if any(place[0] == block for place in entry.places)):
                self.blocks[block % self.header.stripes][block // self.header.stripes] = data.ljust(self.header.block, b"\0")

    def digest_of(self, entry, blocks):
        """What it is if unknown blocks are these."""
        if entry.size < self.header.block:
            return checksum(b"".join(blocks.get(block, b"")[offset:offset + size] for block, offset, size in entry.places))
        return checksum(b"".join(self.sum_of(block) or checksum(blocks.get(block, b"")) for block, _, _ in entry.places))

    def digest_of_data(self, data):
        block = self.header.block
        sums = [checksum(data[at:at + block]) for at in range(0, len(data), block)]
        return sums[0] if len(data) < block else checksum(b"".join(sums))

    def search(self):
        """Takes blocks wherever files have them: moved, renamed, in another place of a file."""
        wanted, taken = {}, {}
        for block in self.lost_blocks():
            if right := self.sum_of(block):
                wanted.setdefault(self.header.used[block], {}).setdefault(right, []).append(block)
        for data in self.found.values():
            view = ctypes.create_string_buffer(data, len(data))
            begin = ctypes.addressof(view)
            for used, sums in wanted.items():
                for at in range(len(data) - used + 1):
                    value = xxhash.XXH3_128bits_withSeed(begin + at, used, 0)
                    for block in sums.get(struct.pack(">QQ", value.high, value.low), []):
                        taken[block] = data[at:at + used]
        self.take(taken)
        # Whole files under other names: no record need be there for them, and some share a block.
        files = dict(self.files)
        for entry in self.header.entries:
            files.update((entry.path, data) for data in self.found.values()
                         if 0 < entry.size == len(data) and self.digest_of_data(data) == entry.digest)
        self.take(self.blocks_of(files))

    # --- Of both.

    def is_recoverable(self):
        """No column has lost more than it has coding blocks."""
        return self.header is not None and self.is_proven and all(len(found) >= self.header.k for found in self.blocks)

    def data_of(self, column):
        """All k blocks of a column, lost ones decoded."""
        found, k = self.blocks[column], self.header.k
        there = {i: found[i] for i in range(k) if i in found}
        lost = [i for i in range(k) if i not in found]
        rows = sorted(row for row in found if row >= k)[:len(lost)]
        # What is known is taken out of the coding blocks; what is left is a small system.
        left = [combined([1] + [self.rows[row][i] for i in there], [found[row], *there.values()]) for row in rows]
        back = inverted([[self.rows[row][i] for i in lost] for row in rows])
        there.update((i, combined(back[j], left)) for j, i in enumerate(lost))
        return [there[i] for i in range(k)]

    def restored(self):
        """All files of the set, by path."""
        header = self.header
        columns = [self.data_of(column) for column in range(header.stripes)]
        if header.version == 1:
            content = io.BytesIO(b"".join(block for blocks in columns for block in blocks))
            return {name: content.read(size) for name, size in header.files}
        blocks = {b: columns[b % header.stripes][b // header.stripes][:used] for b, used in enumerate(header.used)}
        for entry in header.entries:
            assert not entry.is_file() or self.digest_of(entry, blocks) == entry.digest, entry.path
        return {entry.path: b"".join(blocks[block][offset:offset + size] for block, offset, size in entry.places)
                for entry in header.entries if entry.is_file()}

    def has_right_coding(self):
        """With everything there: all bytes of the shard files are what the format says."""
        header, digests = self.header, [0] * self.header.n
        for column, found in enumerate(self.blocks):
            data = [found[i] for i in range(header.k)]
            if header.version == 2:
                used = [block[:header.used[i * header.stripes + column]] for i, block in enumerate(data)]
                sums = b"".join(checksum(block) + crc32c(block).to_bytes(4, "little") for block in used)
            else:
                sums = b"".join(block_checksum(block, header.uuid, i, column) for i, block in enumerate(data))[:header.sums]
            if header.keeps_files and sums != self.sums[column]:
                return False
            for i in range(header.n):
                if combined(self.rows[i], data) != found[i]:
                    return False
                covered = found[i] + (sums if i >= header.k else b"")
                digests[i] ^= int.from_bytes(block_checksum(covered, header.uuid, i, column), "big")
        return [d.to_bytes(16, "big") for d in digests][-len(header.digests):] == header.digests
