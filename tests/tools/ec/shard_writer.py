"""Writes coding shards of format 1 beside files that are kept, which ec only reads, and headers of format 2 that claim anything."""
import os
import struct

from reference import generator, combined
from shard_reader import MAGIC, UNIT, block_checksum, checksum


def sealed(text, end=b""):
    """With zeros to a whole number of units, and its checksum."""
    whole = -(-(len(text) + len(end) + 16) // UNIT) * UNIT
    text = text.ljust(whole - 16 - len(end), b"\0") + end
    return text + checksum(text)


def keep_by_format_1(directory, names, k, m, technique, record):
    """The names are of files in the directory, where the shards go."""
    block, uuid = record - 16 * k - 16, os.urandom(16)
    contents = []
    for name in names:
        with open(os.path.join(directory, name), "rb") as file:
            contents.append(file.read())
    content = b"".join(contents)
    digests, records = [0] * (k + m), [[] for _ in range(m)]
    rows = generator(technique, k, m)[k:]
    for stripe in range(-(-len(content) // (k * block))):
        data = [content[(stripe * k + i) * block:][:block].ljust(block, b"\0") for i in range(k)]
        sums = [block_checksum(part, uuid, i, stripe) for i, part in enumerate(data)]
        covered = [combined(row, data) + b"".join(sums) for row in rows]
        sums += [block_checksum(part, uuid, k + i, stripe) for i, part in enumerate(covered)]
        for i in range(m):
            records[i].append(covered[i] + sums[k + i])
        digests = [digest ^ int.from_bytes(value, "big") for digest, value in zip(digests, sums)]
    rest = b"".join(digest.to_bytes(16, "big") for digest in digests)
    for name, part in zip(names, contents):
        rest += struct.pack("<QH", len(part), len(os.fsencode(name))) + os.fsencode(name)
    whole = -(-(64 + len(rest) + 16) // UNIT) * UNIT
    for i in range(m):
        header = sealed(MAGIC + struct.pack("<II16sHHHBBIIQQ", 1, whole, uuid, k, m, k + i, technique == "cauchy", 1, record, len(names),
                                            len(content), 0) + rest)
        with open(os.path.join(directory, f"{names[0]}.{k + i:03}.ec"), "wb") as file:
            file.write(header + b"".join(records[i]) + header)


def header_of_format_2(header, **other):
    """That of a KeptHeader, with other values in some places."""
    value = {**vars(header), **other}
    value.setdefault("count", len(value["entries"]))
    parts = [*value["digests"], struct.pack("<H", len(value["name"])), value["name"]]
    for entry in value["entries"]:
        entry = entry if isinstance(entry, dict) else vars(entry)
        parts += [struct.pack("<BHHQqI16s", entry["kind"], entry["mode"], len(entry["path"]), entry["size"], entry["seconds"],
                              entry["nanoseconds"], entry["digest"]), entry["path"]]
    rest = b"".join(parts)
    whole = -(-(64 + len(rest) + 20) // UNIT) * UNIT
    return sealed(MAGIC + struct.pack("<II16sHHHBBIIQQ", value.get("version", 2), whole, value["uuid"], value["k"], value["m"], value["shard"],
                                      value["technique"], value["keeps_files"], value["block"], value["count"], value["object_bytes"],
                                      value["stripes"]) + rest, struct.pack("<I", whole))
