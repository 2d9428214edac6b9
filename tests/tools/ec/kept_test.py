"""Files that stay where they are, with coding shards alone (ec create --keep): what can be lost comes back, and nothing else is touched.

kept_test.py EC [--all] [--kills N] [--seed S]. --all: every pair of files, and 5,000 files.
"""
import argparse
import base64
import collections
import fcntl
import io
import itertools
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import zlib

import shard_reader
import shard_writer
from damage_test import DAMAGED, FAILURE, LOST, OK, USAGE
from ec_test import Ec, check, interrupted

# Two files and two coding shards that ec 0.2.0 has kept them by, as a compressed tar archive.
FORMAT_1 = ("eNrt3W1IE3EcwPFbYS+E4gpzWQgXVwQ11tbOLc2SopcVPYFvLLzm2dRtxm5BEr3oTY8EJlpqlkHPb4Ik0vJYBYkhBGqLahmVFSUXRW96I0F3UVS+6IFqlX0/"
            "e7Hdf/tuY7AXux9/pgq/n8fiV5T315YR115F+bT2Yd3v9QQEyZOG9yZs1uNqzHpJ4f+0OCppaixcocWkmBbWVF2TQqouVWmb4lI8pFmHG2rimu6S1GiZvVAj"
            "RaxPTApWR6x71GAVPT09PT09PT09PT09PT09PT09PT09PT3939YL/znV7fHMc2vBPzf/832+9nH+F/Az/0uL3VpQH585NdNhH4iCsKQzwxc9uXTvntv6ET0R"
            "2z5GsC8Oh33fGOshGTlf9lULh050H8/dNtiwdcvsCwua8l7HdVfkcJ0adrYpR+7NbVlX0Zx/ZtnsolVVjqPTLi0vmpjc8SykCjf0N12dK8INwofncwhqhvDx"
            "5gYBAAAAAAD8hNPX516Zc7X0bc6x9bk7T10w41nD1ZWP74daBwv7a5+2ltUXdz2vq+9ZW/zC7O6bUl1fOvyo8mFtSSAvmnW36+Xk6L6raw4Gs5TG5gPFiyY1"
            "t1TT09PT09PT04/2vtQXbDxXIF6+2GGI3sTlzrMB0Ujk+y8Z+WK+4TcS7YaoJNrFTmN+gVigGNaht63AaM8WE4F59kKb2HG+nZ6enp6e/hf3PzqPZ/4PAAAA"
            "AMDon//b+z98f+H+j4CH/R/p8D3nf8Zy/gcAAAAAgH+Kc3nJduc475JAc3lh1oQnFbsiw87KJqWlNbtvUY7YGiz3pdSX5SXXfNq0u4VDzvL9w5HQoZyelavD"
            "ke5UXbgxNnClrGzy/UNNQ77+isHDYXp6enp6enr60d5vLH4++MBlTp/ZK5u3ktP7i/pMOemeMUt2m255hpxMyebNZMrsl++5TNdN2Tq8NeCSU6/MZN9te2HA"
            "7L2Toqenp6en/8X9t+bxI+fvzP8BAAAAABj98/90/NT++v4PW97I/R9ej8L+j3Sw/ygnk68FAAAAAAAAAAAAAPzz3gHJyoaP")


def state_of(folder):
    """All in a folder by its path: content, inode, mode and time of change of files, mode and time of directories."""
    found, root = {}, os.fsencode(folder)
    for place, directories, names in os.walk(root):
        for name in directories + names:
            path = os.path.join(place, name)
            st = os.lstat(path)
            content = None
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            found[os.path.relpath(path, root)] = (content, st.st_ino, stat.S_IMODE(st.st_mode), st.st_mtime_ns)
    return found


class Tree:
    """A folder of files as they were when their set was made."""

    def __init__(self, ec, name, sizes, *arguments, shards=None):
        self.ec, self.name = ec, name
        self.places = [name] + [shards] * (shards is not None)
        ec.fresh(*self.places)
        for path, size in sizes.items():
            full = self.path(path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if size is None:
                os.mkdir(full)
                continue
            with open(full, "wb") as file:
                file.write(random.randbytes(size))
            os.chmod(full, random.choice([0o600, 0o640, 0o644, 0o755]))
            os.utime(full, ns=(0, random.randrange(10**18, 17 * 10**17)))
        ec.right("create", "--keep", "-r", name, *arguments, *(["-o", shards] if shards else []))
        self.note_state()

    def path(self, *names):
        return os.path.join(self.ec.folder, self.name, *(os.fsdecode(name) for name in names))

    def note_state(self):
        self.whole = state_of(self.path())
        self.kept = shard_reader.Kept([os.path.join(self.ec.folder, place) for place in self.places])
        # Each data block that has bytes of a file: the file, where in the file, how many.
        self.blocks = {number: (entry.path, i * size, min(size, entry.size - i * size)) for size in [self.kept.header.block]
                       for entry in self.kept.header.entries for i, (number, _, _) in enumerate(entry.places)}

    def files(self):
        return [entry.path for entry in self.kept.header.entries if entry.is_file()]

    def damage(self, path, at, size):
        """Other bytes in a part of a file, which keeps its time of change."""
        st = os.stat(self.path(path))
        with open(self.path(path), "r+b") as file:
            file.seek(at)
            old = file.read(size)
            file.seek(at)
            file.write(bytes(255 - byte for byte in old))
        os.utime(self.path(path), ns=(st.st_atime_ns, st.st_mtime_ns))

    def change(self, path, change):
        """Another content, by a function of the one that there is."""
        with open(self.path(path), "r+b") as file:
            content = change(file.read())
            file.seek(0)
            file.write(content)
            file.truncate()

    def damage_block(self, shard, column):
        """Of a data block its first byte, of a coding block the record."""
        header = self.kept.header
        if shard >= header.k:
            name = f"{os.fsdecode(header.name)}.{shard:03}.ec"
            return self.damage(name, header.bytes + column * header.record + random.randrange(header.record), 1)
        if (block := shard * header.stripes + column) in self.blocks:
            path, at, _ = self.blocks[block]
            self.damage(path, at, 1)
        return None

    def lost_by(self, paths):
        """The most blocks that a column loses with these files."""
        header = self.kept.header
        blocks = {place[0] for entry in header.entries if entry.path in paths for place in entry.places}
        return max(collections.Counter(block % header.stripes for block in blocks).values(), default=0)

    def check_repair(self, what, moved=(), arguments=()):
        """All is back; what was whole is what it was; what was made anew has its mode and time."""
        before = state_of(self.path())
        status, out, err = self.ec("repair", *(arguments or self.places))
        check(status == OK, f"{what}: repair gives {status}: {out} {err}")
        after = state_of(self.path())
        for path, (content, _, mode, time) in self.whole.items():
            check(path in after and after[path][0] == content, f"{what}: {path} is not back")
            if before.get(path, [None])[0] == content and content is not None:
                check(after[path] == before[path], f"{what}: {path} was whole and is touched")
            elif not path.endswith(b".ec") and path not in before:
                check(after[path][2:] == (mode, time), f"{what}: {path} has {after[path][2:]}, not {mode:o} {time}")
        for path in set(after) - set(self.whole):
            if after[path][0] is None and path in before:
                continue  # a directory that files were moved out of
            check(path in before and after[path] == before[path] or path.endswith(b".damaged"), f"{what}: {path} is new")
            check(after[path][0] in [state[0] for state in before.values()], f"{what}: {path} is not what was damaged")
        for path in set(before) - set(after):
            check(path in moved, f"{what}: {path} is gone")
        status, out, err = self.ec("verify", *(arguments or self.places))
        check(status == OK, f"{what}: verify after repair gives {status}: {out} {err}")
        for path in set(after) - set(self.whole):
            if after[path][0] is not None:
                os.remove(self.path(path))

    def check_lost(self, what):
        """What is beyond repair stays what it is."""
        before = state_of(self.path())
        for command in ("verify", "repair"):
            status, out, err = self.ec(command, *self.places)
            check(status == LOST and ("beyond repair" in out or err), f"{what}: {command} gives {status}: {out} {err}")
        check(state_of(self.path()) == before, f"{what}: something changed")


def check_without(tree, lost):
    for name in lost:
        os.remove(tree.path(name))
    tree.check_repair(f"{lost} are lost")


def damage_m_of_each_column(tree):
    header = tree.kept.header
    for column in range(header.stripes):
        for shard in random.sample(range(header.k), header.m):
            # Some coding blocks in the place of data blocks.
            tree.damage_block(random.randrange(header.k, header.n) if random.random() < 0.1 else shard, column)


def check_parts(tree, times):
    """A long run of bytes anywhere, and as many blocks of each column at random as there are coding blocks."""
    header = tree.kept.header
    all_bytes = header.k * header.stripes * header.block
    size = 9 * all_bytes // 100
    for _ in range(times):
        begin = random.randrange(all_bytes - size)
        for block in range(begin // header.block, (begin + size - 1) // header.block + 1):
            path, at, there = tree.blocks.get(block, (None, 0, 0))
            first, last = (min(max(0, place - block * header.block), there) for place in (begin, begin + size))
            if first < last:
                tree.damage(path, at + first, last - first)
        tree.check_repair(f"{size} bytes from {begin} are damaged")
        damage_m_of_each_column(tree)
        tree.check_repair("blocks of each column are damaged")


def check_losses(ec, is_all):
    """20 files of 3 MB at 10 %: files, pairs, a long run, blocks at random."""
    tree = Tree(ec, "files", {f"{i}": 3000000 for i in range(20)}, "--redundancy", "10%")
    header, names = tree.kept.header, tree.files()
    pairs = list(itertools.combinations(names, 2))
    for lost in [(name,) for name in names] + (pairs if is_all else random.sample(pairs, 8)):
        check_without(tree, lost)
    check_parts(tree, 50 if is_all else 5)
    damage_m_of_each_column(tree)
    for shard in range(header.m + 1):
        tree.damage_block(shard * 2, 0)
    tree.check_lost("one block more than there are coding blocks")


def check_small_files(ec, is_all):
    """Files from 1 byte to 1 MB in a tree: what is lost comes back as long as it is no more than what was paid for."""
    count, most = (5000, 20) if is_all else (300, 17)
    sizes = {f"{i % 7}/{i % 3}/{i}": 1 + int(2 ** random.uniform(0, most)) for i in range(count)}
    tree = Tree(ec, "small", sizes, "--redundancy", "10%")
    for i in range(20 if is_all else 4):
        names = tree.files()
        if i % 2:
            random.shuffle(names)
        lost, begin, share = [], random.randrange(len(names)), 0
        for name in names[begin:] + names[:begin]:
            if tree.lost_by([*lost, name]) > tree.kept.header.m:
                break
            lost.append(name)
            share += sizes[os.fsdecode(name)]
        # Where many files end a little behind a block, twice their bytes are paid for; and the next one may be long.
        share += sizes[os.fsdecode(name)]
        check(i % 2 or 100 * share >= 4 * tree.kept.header.object_bytes, f"{share} bytes of neighbours are more than can be lost")
        check_without(tree, lost)
    for _ in range(20 if is_all else 4):
        check_without(tree, random.sample(tree.files(), 2))
    check_parts(tree, 5 if is_all else 1)
    for i in range(5 if is_all else 1):
        renamed, moved, longer = random.sample(tree.files(), 3)
        os.rename(tree.path(renamed), tree.path(renamed + b".old"))
        os.rename(tree.path(moved), tree.path(b"0", b"moved"))
        tree.change(longer, lambda content: b"x" + content)
        tree.check_repair(f"{renamed} is renamed, {moved} moved, {longer} longer", [renamed + b".old", b"0/moved"], ["-r", tree.name])
        tree.note_state()


def check_moves(ec):
    """Bytes that are there in another place are found, more of them than the coding shards could give."""
    sizes = {"a": 300000, "b": 300000, "c": 5000, "sub/d": 400000, "e": 100}
    tree = Tree(ec, "moved", sizes, "-k", "20", "-m", "1")

    def swap():
        os.rename(tree.path("a"), tree.path("x"))
        os.rename(tree.path("b"), tree.path("a"))
        os.rename(tree.path("x"), tree.path("b"))

    def rename_all():
        os.mkdir(tree.path("new"))
        for i, name in enumerate(tree.files()):
            os.rename(tree.path(name), tree.path(f"new/{i}"))

    for what, act in (
            ("renamed", lambda: os.rename(tree.path("a"), tree.path("z"))),
            ("moved to a folder", lambda: os.rename(tree.path("b"), tree.path("sub/b"))),
            ("moved out of its folder", lambda: os.rename(tree.path("sub/d"), tree.path("d"))),
            ("all are moved", rename_all),
            ("two have changed names", swap),
            ("one byte in front", lambda: tree.change("a", lambda c: b"x" + c)),
            ("bytes in front of two", lambda: [tree.change(n, lambda c: b"some more" + c) for n in ("a", "sub/d")]),
            ("bytes put in", lambda: tree.change("b", lambda c: c[:100000] + b"more" + c[100000:])),
            ("bytes removed", lambda: tree.change("b", lambda c: c[:100000] + c[100003:])),
            ("the first bytes removed", lambda: tree.change("sub/d", lambda c: c[3:])),
            ("a byte at the end", lambda: tree.change("a", lambda c: c + b"x")),
            ("the end removed", lambda: tree.change("a", lambda c: c[:-7])),
            ("a small file changed", lambda: tree.change("c", lambda c: b"x" + c))):
        inodes = {tree.whole[path][0]: tree.whole[path][1] for path in tree.files()}
        act()
        before = state_of(tree.path())
        moved = [path for path, state in before.items() if path not in tree.whole]
        status, out, err = ec("verify", "-r", "moved")
        check(status == DAMAGED, f"{what}: verify gives {status}: {out} {err}")
        tree.check_repair(what, moved, ["-r", "moved"])
        after = state_of(tree.path())
        if moved and b"new" not in moved:
            check(all(after[path][1] == inodes[after[path][0]] for path in tree.files()), f"{what}: it is another file")
        shutil.rmtree(tree.path("new"), ignore_errors=True)
        tree.note_state()


def check_trees(ec):
    """A tree that is gone as a whole comes back as it was, whatever the names; links are left out, and lead nowhere."""
    long, odd = "n" * 255, "Grüße, 日本\n\x1b[31m"
    sizes = {"one/name": 3000, "two/name": 3000, "empty": 0, "one/empty": 0, "nothing": None, "one/nothing": None, long: 5000,
             f"{'x' * 255}/{odd}": 4000, os.fsdecode(b"\xff\xfe not UTF-8"): 10, "/".join(["d" * 200] * 15): 77, ".hidden": 5, "big": 200000}
    for arguments in (["--redundancy", "100%"], ["-k", "3", "-m", "5"], ["-k", "100", "-m", "150"], ["-k", "4", "-m", "4", "--technique", "reed_sol_van"]):
        ec.fresh("out")
        tree = Tree(ec, "tree", sizes, *arguments, shards="shards")
        check(tree.kept.has_right_coding(), f"{arguments}: the bytes are those of the format")
        ec.fresh("tree")
        status, _, err = ec("extract", *tree.places, "-o", "-")
        check(status == USAGE and "name a directory" in err, f"to a stream: {status} {err}")
        check(ec("extract", *tree.places, "-o", "out")[0] == OK, f"{arguments}: extract")
        expected = {path: (state[0], *state[2:]) for path, state in tree.whole.items()}
        found = {path: (state[0], *state[2:]) for path, state in state_of(os.path.join(ec.folder, "out")).items()}
        check(found == expected, f"{arguments}: extracted {set(found.items()) ^ set(expected.items())}")
        tree.check_repair(f"{arguments}: all is lost")

    tree = Tree(ec, "tree", {"sub/a": 3000, "sub/b": 3000, "c": 3000}, "--redundancy", "100%", shards="shards")
    ec.fresh("outside")
    for name in ("a", "b", "c"):
        ec.write(f"outside/{name}", b"mine")
    before = state_of(os.path.join(ec.folder, "outside"))
    shutil.rmtree(tree.path("sub"))
    os.symlink("../outside", tree.path("sub"))
    for command in (["repair", *tree.places], ["extract", *tree.places, "-o", "tree", "--force"]):
        status, _, err = ec(*command)
        check(status == FAILURE and err, f"a link in the place of a folder: {command} gives {status} {err}")
    os.unlink(tree.path("sub"))
    os.remove(tree.path("c"))
    os.symlink("../outside/c", tree.path("c"))
    status, _, err = ec("repair", *tree.places)
    check(status in (OK, FAILURE), f"a link in the place of a file: {status} {err}")
    check(state_of(os.path.join(ec.folder, "outside")) == before, "nothing outside is written")

    ec.fresh("tree", "outside")
    ec.write("tree/a", b"content")
    ec.write("outside/b", b"content")
    os.symlink("../outside", os.path.join(ec.folder, "tree/link"))
    os.symlink("a", os.path.join(ec.folder, "tree/link to a"))
    os.mkfifo(os.path.join(ec.folder, "tree/pipe"))
    status, _, err = ec("create", "--keep", "-r", "tree")
    check(status == OK and "link" in err and "pipe" in err, f"links are left out, and that is said: {status} {err}")
    kept = shard_reader.Kept([os.path.join(ec.folder, "tree")])
    check([entry.path for entry in kept.header.entries] == [b"a"], "links and pipes are not kept")


def check_names(ec):
    """What the names of a set are relative to: the deepest directory that holds all."""
    for given, names, place in ((["x/a", "x/b"], [b"a", b"b"], "x"), (["x/a", "y/a"], [b"x/a", b"y/a"], "."), (["-r", "x"], [b"a", b"b"], "x"),
                                (["-r", "x", "y"], None, "."), (["x/a"], [b"a"], "x")):
        ec.fresh("names", "names/x", "names/y")
        for name in ("x/a", "x/b", "y/a"):
            ec.write(f"names/{name}", random.randbytes(1000))
        inside = Ec(ec.program, os.path.join(ec.folder, "names"))
        inside.right("create", "--keep", *given)
        kept = shard_reader.Kept([os.path.join(inside.folder, place)])
        found = [entry.path for entry in kept.header.entries]
        check(found == names or not names and {b"x/a", b"x/b", b"y/a"} <= set(found), f"{given}: {found}")
        check(any(name.endswith(".ec") for name in inside.files(place)), f"{given}: the shards are in {place}")
        inside.right("verify", place)


def check_shapes(ec):
    """What --redundancy means; and the bytes are those of the format, whatever the lengths."""
    ec.fresh("set")
    ec.write("set/a", random.randbytes(300000))
    for given, shape in ((["--redundancy", "10%"], (200, 20)), (["--redundancy", "100%"], (127, 127)), ([], (200, 20)), (["-k", "20", "-m", "2"], (20, 2)),
                         (["--redundancy", "1%"], (200, 2)), (["-k", "10", "--redundancy", "25%"], (10, 3))):
        ec.right("create", "--keep", "set/a", *given)
        header = shard_reader.Kept([os.path.join(ec.folder, "set")]).header
        check((header.k, header.m) == shape, f"{given}: {header.k}+{header.m}")
        for name in ec.files("set") - {"a"}:
            os.remove(os.path.join(ec.folder, "set", name))
    for given in (["--redundancy", "10%", "-m", "2"], ["--redundancy", "0%"], ["--redundancy", "x"], ["--redundancy", "10%", "-k", "250"]):
        check(ec("create", "--keep", "set/a", *given)[0] == USAGE, f"{given} is refused")
    check(ec("create", "set/a", "--redundancy", "10%", "-m", "2", "-o", "set")[0] == USAGE, "and without --keep")
    for _ in range(6):
        sizes = {f"{i % 3}/{i}": random.choice([0, 1, 511, 512, 513, random.randrange(3000), random.randrange(60000)]) for i in range(random.randrange(1, 20))}
        tree = Tree(ec, "shapes", sizes, *random.choice([[], ["-k", "7", "-m", "3"], ["--redundancy", "30%"]]))
        check(tree.kept.has_right_coding(), f"{sizes}: the bytes are those of the format")
        check(tree.kept.restored() == {p: s[0] for p, s in tree.whole.items() if not p.endswith(b".ec") and s[0] is not None}, f"{sizes}: read back")


def check_places(ec):
    """Files elsewhere than their shards, and columns without any sums."""
    tree = Tree(ec, "tree", {"a": 20000, "sub/b": 30000}, "-k", "4", "-m", "2", shards="shards")
    status, out, err = ec("verify", "shards")
    check(status == LOST, f"the files are not beside the shards: {status} {out} {err}")
    os.remove(os.path.join(ec.folder, "shards/tree.004.ec"))
    ec.right("repair", *tree.places, "-q")
    check(ec.files("shards") == {"tree.004.ec", "tree.005.ec"}, f"a shard is made anew beside the others: {ec.files('shards')}")
    header = tree.kept.header
    for name in ("shards/tree.004.ec", "shards/tree.005.ec"):
        shard = bytearray(ec.read(name))
        shard[header.bytes + 100] ^= 1
        ec.write(name, shard)
    check(ec("verify", *tree.places)[0] == DAMAGED, "a column has no sums, and the files are right")
    tree.damage_block(0, 0)
    tree.check_lost("a column has no sums, and the files are wrong")
    tree.damage_block(0, 0)
    tree.check_repair("a column has no sums, and the files are right")
    for arguments in (["-"], ["-r", "-"], ["tree"], ["nothing"]):
        status, _, err = ec("create", "--keep", *arguments, stdin=subprocess.DEVNULL)
        check(status in (USAGE, FAILURE) and err, f"create --keep {arguments}: {status} {err}")


def check_format_1(ec):
    """Sets that earlier releases made."""
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(base64.b64decode(FORMAT_1)))) as archive:
        stored = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    for lost in ((), ("a",), ("a.002.ec",), ("b", "a.003.ec")):
        ec.fresh("old", "out")
        for name, content in stored.items():
            ec.write(f"old/{name}", content)
        ec.right("verify", "old")
        for name in lost:
            os.remove(os.path.join(ec.folder, "old", name))
        check(ec("verify", "old")[0] == (DAMAGED if lost else OK), f"{lost} of format 1: verify")
        check(ec("extract", "old", "-o", "out")[0] == OK and all(ec.read(f"out/{n}") == stored[n] for n in ("a", "b")), f"{lost}: extract")
        check(ec("repair", "old")[0] == OK and all(ec.read(f"old/{n}") == c for n, c in stored.items()), f"{lost}: repair")


def check_claims(ec):
    """What a header claims is no work, takes no memory, and leads nowhere."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    if ec("--version", preexec_fn=limit)[0] != OK:  # a sanitizer's build takes terabytes of addresses
        limit = None
    tree = Tree(ec, "claims", {"a": 3000}, "-k", "2", "-m", "3")
    header = tree.kept.header
    shards = {name: tree.whole[name][0] for name in tree.whole if name.endswith(b".ec")}
    file = vars(header.entries[0])
    many = [{**file, "path": b"%d" % i, "size": 1 << 44} for i in range(1 << 16)]
    columns = (1 << 60) // 65536 // 2
    claims = [({"entries": [{**file, "size": 1 << 60}], "object_bytes": 1 << 60, "block": 65536, "stripes": columns}, LOST),
              ({"entries": [{**file, "size": 1 << 60}], "object_bytes": 1 << 60, "block": 512, "stripes": (1 << 60) // 512 // 2}, LOST),
              ({"entries": many, "count": len(many), "object_bytes": 1 << 60, "block": 65536, "stripes": columns}, LOST)]
    paths = [b"../x", b"/x", b"x//y", b"x/", b"./x", b"x/..", b"x\0y", b"", b"n" * 256, b"d/" * 2048 + b"x"]
    claims += [({"entries": [{**file, "path": path}]}, FAILURE) for path in paths]
    claims += [({"entries": [{**file, "path": b"x"}, {**file, "path": path, "size": 0}]}, FAILURE) for path in (b"x", b"x/y")]
    claims += [({"entries": [{**file, **entry}]}, FAILURE) for entry in ({"kind": 1}, {"kind": 2}, {"nanoseconds": 10**9}, {"mode": 0o10000}, {"size": 2999})]
    claims += [(other, FAILURE) for other in ({"stripes": header.stripes + 1}, {"stripes": 0}, {"object_bytes": (1 << 60) + 1}, {"count": 2**32 - 1},
                                              {"count": 0, "entries": [], "object_bytes": 0}, {"k": 1}, {"k": 254}, {"technique": 2}, {"version": 3},
                                              {"keeps_files": 0}, {"block": 256}, {"block": 1 << 17}, {"block": 3000}, {"shard": 1}, {"shard": 5},
                                              {"name": b"../x"}, {"name": b""})]
    for other, right in claims:
        ec.fresh("claims", "out")
        for i, content in enumerate(shards.values()):
            front = shard_writer.header_of_format_2(header, **{"shard": header.k + i, **other})
            ec.write(f"claims/{i}.ec", front + content[header.bytes:-header.bytes] + front)
        before = state_of(tree.path())
        what = ", ".join(f"{key}: {str(value)[:100]}" for key, value in other.items())
        for command in (["verify", "claims"], ["repair", "claims"], ["extract", "claims", "-o", "out"]):
            status, out, err = ec(*command, preexec_fn=limit, timeout=120)
            check(status == right and ("beyond repair" in out + err or right == FAILURE), f"{what}: {command[0]} gives {status}: {out[-500:]} {err[-500:]}")
        check(state_of(tree.path()) == before and not ec.files("out"), f"{what}: nothing changes")


def check_host(ec):
    """Few descriptors, no permission, two at once: no damage, and nothing is touched."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))

    sizes = {f"{i % 20}/{i}": random.randrange(20000) for i in range(500)}
    tree = Tree(ec, "many", sizes, "--redundancy", "20%")
    status, _, err = ec("verify", "many", preexec_fn=few)
    check(status == OK, f"500 files by 32 descriptors: {status} {err}")
    for name in (b"1/1", b"2/2", b"3/3"):
        os.remove(tree.path(name))
    status, _, err = ec("repair", "many", preexec_fn=few)
    check(status == OK, f"repair by 32 descriptors: {status} {err}")
    tree.check_repair("32 descriptors")
    status, _, err = ec("create", "--keep", "-r", "many", "-o", ".", "--name", "few", preexec_fn=few)
    check(status == OK, f"create by 32 descriptors: {status} {err}")

    dirs = Tree(ec, "dirs", {f"{i}/a/{i}": random.randrange(2000) for i in range(400)}, "--redundancy", "100%", shards="shards")
    ec.fresh("dirs", "out")
    status, _, err = ec("extract", *dirs.places, "-o", "out", preexec_fn=few)
    check(status == OK and len(state_of(os.path.join(ec.folder, "out"))) == len(dirs.whole), f"800 directories by 32 descriptors: {status} {err}")
    status, _, err = ec("repair", *dirs.places, preexec_fn=few)
    check(status == OK, f"800 directories made anew by 32 descriptors: {status} {err}")
    dirs.check_repair("800 directories")

    for name in (b"1/1", b"2/2"):
        os.remove(tree.path(name))
    held = os.open(tree.path(), os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    status, _, err = ec("repair", "many")
    os.close(held)
    check(status == FAILURE and "another ec is at work" in err, f"two at once: {status} {err}")
    runs = [subprocess.Popen([ec.program, "repair", "many"], cwd=ec.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [(run.communicate()[1], run.returncode) for run in runs]
    check(any(status == OK for _, status in ends) and all(status == OK or status == FAILURE and err for err, status in ends), f"two at once: {ends}")
    tree.check_repair("two at once")

    if os.geteuid() == 0:
        def nobody():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        denied = os.path.join(ec.folder, "ec")  # where everybody may run it
        shutil.copy(ec.program, denied)
        os.chmod(ec.folder, 0o711)
        others = Ec(denied, ec.folder)
        if others("--version", preexec_fn=nobody)[0] != OK:
            return
        for place, _, names in os.walk(tree.path()):
            for name in [".", *names]:
                os.chown(os.path.join(place, name), 65534, 65534)
        for path in (b"4/4", b"4", b"many.200.ec"):
            was = os.stat(tree.path(path)).st_mode
            os.chmod(tree.path(path), 0)
            for command in ("verify", "repair"):
                before = state_of(tree.path())
                status, _, err = others(command, "many", preexec_fn=nobody)
                check(status == FAILURE and os.fsdecode(path) in err and "ermission" in err, f"{path} may not be read: {command} gives {status} {err}")
                check(state_of(tree.path()) == before, f"{path} may not be read: {command} changes something")
            os.chmod(tree.path(path), was)
        check(others("verify", "many", preexec_fn=nobody)[0] == OK, "as it was")


def check_kills(ec, kills):
    """Killed while it repairs several files: each has its old content or the right one, and a second run ends it."""
    tree = Tree(ec, "killed", {f"{i % 3}/{i}": 400000 for i in range(9)}, "-k", "20", "-m", "10")
    usual, ends = 0.1, collections.Counter()
    for i in range(kills):
        for name in random.sample(tree.files(), 2):
            os.remove(tree.path(name))
        damaged = random.choice([name for name in tree.files() if os.path.exists(tree.path(name))])
        tree.damage(damaged, random.randrange(300000), 1000)
        before = state_of(tree.path())
        how = random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT])
        status, usual = interrupted(ec, ["repair", "killed"], how, usual)
        ends[status] += 1
        what = f"kill {i}, {how.name}, exit {status}"
        check(status in (OK, -how), what)
        after = state_of(tree.path())
        left = {path for path in after if path.endswith(b".tmp")}
        check(how == signal.SIGKILL or not left, f"{what} leaves {left}")
        for path, (content, *_) in tree.whole.items():
            old = before.get(path, [None])[0]
            check(after.get(path, [None])[0] in (content, old), f"{what}: {path} is neither the old one nor the new one")
            check(old != content or content is None or after[path] == before[path], f"{what}: {path} was whole and is touched")
        check(before[damaged][0] in [state[0] for state in after.values()], f"{what}: the damaged file has some name")
        check(ec("repair", "killed")[0] == OK, f"{what}: a second run")
        for path in state_of(tree.path()):
            if path.endswith((b".tmp", b".damaged")) or b".damaged" in path:
                os.remove(tree.path(path))
        tree.check_repair(what)
        tree.note_state()
    print(f"kills: {kills}, exits {dict(ends)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 48))
    given = parser.parse_args()
    random.seed(given.seed)
    print(f"--seed {given.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="ec_kept_", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        ec = Ec(os.path.realpath(given.program), folder)
        check_shapes(ec)
        check_names(ec)
        check_format_1(ec)
        check_places(ec)
        check_trees(ec)
        check_moves(ec)
        check_claims(ec)
        check_host(ec)
        check_losses(ec, given.all)
        check_small_files(ec, given.all)
        check_kills(ec, given.kills)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
