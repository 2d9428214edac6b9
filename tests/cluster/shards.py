"""What lies on the disks of OSDs that are stopped: the bytes of each shard, by ceph-objectstore-tool's export of a PG."""

import json
import struct
import subprocess

from cluster.daemons import Failure

TYPE_OBJECT_BEGIN, TYPE_DATA, TYPE_ATTRS = 3, 5, 6  # of a section; as in Ceph's tools/RadosDump.h
HEAD = (1 << 64) - 2  # CEPH_NOSNAP, of an object that is no snapshot
NO_GENERATION = (1 << 64) - 1  # of an object that is not there for a roll-back only
HASH_INFO = "hinfo_key"  # sums of the shards; not every object has them
SUMS_AT = 2 + 4 + 8 + 4  # in it: after versions, length, size and count


class Reader:
    """Ceph's encoding of simple types."""

    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def bytes(self):
        size = self.number("I")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def struct(self):
        """Another reader, of the structure that begins here: two bytes of versions, then its length."""
        self.at += 2
        return Reader(self.bytes())


def sections(export):
    """(type, content) of what the tool wrote."""
    at = 16  # a header: magic, version, and the sizes of what stands before and after a section's content
    before, after = struct.unpack_from("<II", export, 8)
    while at < len(export):
        kind, size = struct.unpack_from("<IQ", export, at + before - 12)
        at += before
        yield kind >> 24, export[at : at + size]
        at += size + (after if size else 0)


def objects(export):
    """{name: (bytes, hash info or None)} of the heads in a PG's export."""
    found = {}
    for kind, content in sections(export):
        reader = Reader(content).struct() if kind in (TYPE_OBJECT_BEGIN, TYPE_DATA, TYPE_ATTRS) else None
        if kind == TYPE_OBJECT_BEGIN:
            hobject = reader.struct()
            hobject.bytes()  # the locator
            name, snap, generation = hobject.bytes().decode(), hobject.number("Q"), reader.number("Q")
            current = [bytearray(), None]
            if snap == HEAD and generation == NO_GENERATION and name:
                found[name] = current
        elif kind == TYPE_DATA:
            offset, _ = reader.number("Q"), reader.number("Q")
            piece = reader.bytes()
            current[0].extend(bytes(max(0, offset + len(piece) - len(current[0]))))
            current[0][offset : offset + len(piece)] = piece
        elif kind == TYPE_ATTRS:
            attributes = {reader.bytes().decode(): reader.bytes() for _ in range(reader.number("I"))}
            current[1] = attributes.get(HASH_INFO)
    return {name: (bytes(data), hash_info) for name, (data, hash_info) in found.items()}


def sums_in_order(hash_info, shard_at):
    """An object's hash info, with the sum of shard shard_at(i) at place i."""
    sums = [hash_info[at : at + 4] for at in range(SUMS_AT, len(hash_info), 4)]
    return hash_info[:SUMS_AT] + b"".join(sums[shard_at(i)] for i in range(len(sums)))


def _tool(cluster, osd, *arguments, data=b""):
    """What ceph-objectstore-tool prints."""
    done = subprocess.run(["ceph-objectstore-tool", "--no-mon-config", "--data-path", cluster.dir / f"osd.{osd}", *arguments],
                          env=cluster.env, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise Failure(f"ceph-objectstore-tool, osd.{osd}, {arguments}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def of_pg(cluster, osd, pgid):
    """Objects of one shard of a PG, as `5.0s3`."""
    return objects(_tool(cluster, osd, "--op", "export", "--pgid", pgid, "--file", "-"))


def flip_bit(cluster, osd, pgid, name):
    """In the first byte of an object's shard."""
    listed = _tool(cluster, osd, "--op", "list", "--pgid", pgid, name).decode().splitlines()[0]
    content = bytearray(of_pg(cluster, osd, pgid)[name][0])
    content[0] ^= 1
    _tool(cluster, osd, "--pgid", pgid, json.dumps(json.loads(listed)[1]), "set-bytes", data=content)
