"""Files that stay where they are, with coding shards alone (ec create --keep): what can be lost comes back, and nothing else is touched.

kept_test.py EC [--all] [--size BYTES] [--seed S]. --all: every pair of files, and 5,000 files. --size: of each of
20 files (3,000,000).
"""
import collections
import contextlib
import fcntl
import itertools
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time

import shard_reader
import shard_writer
from program import DAMAGED, FAILURE, LOST, OK, USAGE, Ec, check, given_options, in_folder, limited, state_of

# Two files and two coding shards that ec 0.2.0 has kept them by.
FORMAT_1 = pathlib.Path(__file__).parents[2] / "vectors" / "kept-0.2.0.tar.gz"


class Tree(Ec):
    """A folder of files as they were when their set was made."""

    def __init__(self, ec, name, sizes, *arguments, shards=None):
        super().__init__(ec.program, ec.path(name))
        self.ec, self.name = ec, name
        self.places = [name] + [shards] * (shards is not None)
        ec.fresh(*self.places)
        for path, size in sizes.items():
            if size is None:
                os.makedirs(self.path(path))
                continue
            self.write(path, random.randbytes(size))
            os.chmod(self.path(path), random.choice([0o600, 0o640, 0o644, 0o755]))
            os.utime(self.path(path), ns=(0, random.randrange(10**18, 17 * 10**17)))
        ec.right("create", "--keep", "-r", name, *arguments, *(["-o", shards] if shards else []))
        self.note_state()

    def state(self):
        return state_of(os.fsencode(self.path()))

    def note_state(self):
        self.whole = self.state()
        self.kept = shard_reader.Set([self.ec.path(place) for place in self.places])
        # Each data block that has bytes of a file: the file, where in the file, how many.
        self.blocks = {number: (entry.path, i * size, min(size, entry.size - i * size)) for size in [self.kept.header.block]
                       for entry in self.kept.header.entries for i, (number, _, _) in enumerate(entry.places)}

    def files(self):
        return [entry.path for entry in self.kept.header.entries if entry.is_file()]

    def damage(self, path, at, size):
        """Other bytes in a part of a file, which keeps its time of change."""
        st = os.stat(self.path(path))
        self.patch(path, at, bytes(255 - byte for byte in self.read(path)[at:at + size]))
        os.utime(self.path(path), ns=(st.st_atime_ns, st.st_mtime_ns))

    def change(self, path, change):
        """Another content, by a function of the one that there is."""
        self.write(path, change(self.read(path)))

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
        before = self.state()
        self.ec.ends(OK, "repair", *(arguments or self.places), what=what)
        after = self.state()
        for path, (content, _, mode, changed, *_) in self.whole.items():
            check(path in after and after[path][0] == content, f"{what}: {path} is not back")
            if before.get(path, [None])[0] == content and content is not None:
                check(after[path] == before[path], f"{what}: {path} was whole and is touched")
            elif not path.endswith(b".ec") and path not in before:
                check(after[path][2:4] == (mode, changed), f"{what}: {path} has {after[path][2:4]}, not {mode:o} {changed}")
        for path in set(after) - set(self.whole):
            if after[path][0] is None and path in before:
                continue  # a directory that files were moved out of
            check(path in before and after[path] == before[path] or path.endswith(b".damaged"), f"{what}: {path} is new")
            check(after[path][0] in [state[0] for state in before.values()], f"{what}: {path} is not what was damaged")
        for path in set(before) - set(after):
            check(path in moved, f"{what}: {path} is gone")
        self.ec.ends(OK, "verify", *(arguments or self.places), what=f"{what}: after repair")
        self.remove(*(path for path in set(after) - set(self.whole) if after[path][0] is not None))

    def check_lost(self, what):
        """What is beyond repair stays what it is."""
        before = self.state()
        for command in ("verify", "repair"):
            check(self.ec.ends(LOST, command, *self.places, what=what), f"{what}: {command} says nothing")
        check(self.state() == before, f"{what}: something changed")


def check_without(tree, lost):
    tree.remove(*lost)
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


def check_losses(ec, is_all, size):
    """20 files at 10 %: files, pairs, a long run, blocks at random."""
    tree = Tree(ec, "files", {f"{i}": size for i in range(20)}, "--redundancy", "10%")
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


def check_moves(ec):
    """Bytes that are there in another place are found, more of them than the coding shards could give."""
    sizes = {"a": 300000, "b": 300000, "c": 5000, "sub/d": 400000, "e": 100}
    tree = Tree(ec, "moved", sizes, "-k", "20", "-m", "1")

    def move(names):
        for old in names:
            os.rename(tree.path(old), tree.path(old + ".moving"))
        for old, new in names.items():
            os.makedirs(os.path.dirname(tree.path(new)), exist_ok=True)
            os.rename(tree.path(old + ".moving"), tree.path(new))

    for what, act in (
            ("renamed", lambda: move({"a": "z"})),
            ("a name that no terminal takes", lambda: move({"a": "a\x1b[31m\udcff"})),
            ("moved to a folder", lambda: move({"b": "sub/b"})),
            ("moved out of its folder", lambda: move({"sub/d": "d"})),
            ("all are moved", lambda: move({name: f"new/{i}" for i, name in enumerate(sizes)})),
            ("two have changed names", lambda: move({"a": "b", "b": "a"})),
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
        moved = [path for path in tree.state() if path not in tree.whole]
        said = ec.ends(DAMAGED, "verify", "-r", "--json", "moved", what=what)
        check(said.replace("\n", " ").isprintable(), f"{what}: verify says {said}")
        tree.check_repair(what, moved, ["-r", "moved"])
        after = tree.state()
        if moved and b"new" not in moved:
            check(all(after[path][1] == inodes[after[path][0]] for path in tree.files()), f"{what}: it is another file")
        shutil.rmtree(tree.path("new"), ignore_errors=True)
        tree.note_state()


def check_second_reading(ec):
    """extract reads again when it has found content: no byte of the damaged file that it read first is left where zeros belong."""
    block, k, m = 4096, 4, 1
    right = {"f": random.randbytes(4 * block) + bytes(block) + random.randbytes(5 * block), "g": random.randbytes(10 * block)}
    ec.fresh("out")
    ec.fill("twice", right)
    ec.right("create", "--keep", "-k", str(k), "-m", str(m), "twice/f", "twice/g")
    shard, = (f"twice/{name}" for name in ec.files("twice") - set(right))
    header = shard_reader.Set([ec.path("twice")]).header
    check(header.block == block, f"blocks of {header.block} bytes")
    record = header.record
    ec.write("twice/copy of f", right["f"])
    for name, at in ((shard, header.bytes + 4 * record + 10), ("twice/f", 4 * block + 7), ("twice/f", 0), ("twice/g", 0)):
        ec.patch(name, at, b"garbage")
    ec.ends(OK, "extract", "twice", "-o", "out", "--threads", "5")
    for name, content in right.items():
        check(ec.read(f"out/{name}") == content, f"{name} is another one")


def check_names_in_the_way(ec):
    """Names that the set or an interrupted run has taken, and a name that is gone together with the end of a shard."""
    tree = Tree(ec, "way", {"a": 30000, "a.damaged": 30000, "b": 30000}, "-k", "2", "-m", "2")
    tree.remove(b"a.damaged")
    tree.damage(b"a", 5, 9)
    ec.ends(OK, "repair", "way")
    check(all(tree.state()[name][0] == tree.whole[name][0] for name in (b"a", b"a.damaged", b"b")), "a name for what was damaged")
    tree = Tree(ec, "way", {"a": 30000, "b": 30000}, "-k", "2", "-m", "1")
    os.rename(tree.path("a"), tree.path("z"))
    os.truncate(tree.path("way.002.ec"), 20000)
    ec.ends(DAMAGED, "verify", "way")
    tree.check_repair("a moved file and a short shard", [b"z"])
    shutil.copy(tree.path("way.002.ec"), tree.path(".ec-0000000000000000.tmp"))
    tree.damage_block(2, 1)
    ec.ends(DAMAGED, "verify", "way")
    ec.ends(OK, "repair", "way")
    os.remove(tree.path(".ec-0000000000000000.tmp"))
    ec.ends(OK, "verify", "way", what="a temporary file was taken for the shard")


def check_directories_in_the_way(ec):
    """A directory where a file belongs, or a file where a directory does, is named by each command, and stays."""
    tree = Tree(ec, "way", {"a": 30000, "sub/b": 30000}, "-k", "2", "-m", "4")
    ec.fresh("out", "out/a")
    remedy = "damaged or missing; when nothing is in their way, ec repair makes them anew\n"
    for name, put, fault, saved in (("a", os.mkdir, "way/a: way/a is a directory; move it away", "saved"),
                                    ("a", os.mkdir, "way/a: way/a is a directory; move it away; its content is in way/moved\n", "way/moved"),
                                    ("sub", lambda path: ec.write(path, b"x"), "way/sub/b: way/sub is not a directory; move it away", "saved")):
        os.rename(tree.path(name), ec.path(saved))
        put(tree.path(name))
        before = tree.state()
        said = ec.ends(DAMAGED, "verify", "way", says=fault)
        check(said.count("anew") == 1 and remedy in said, said)
        ec.ends(FAILURE, "repair", "way", says=fault.split(": ")[1].split(";")[0])
        ec.ends(FAILURE, "extract", "way", "-o", "out", says="out/a is a directory\n")
        ec.ends(FAILURE, "extract", "way", "-o", "out", "--force", says="out/a is a directory\n")
        check(tree.state() == before and not ec.contents("out"), f"{name} is in the way")
        (os.rmdir if name == "a" else os.remove)(tree.path(name))
        os.rename(ec.path(saved), tree.path(name))
    ec.fresh("out")
    ec.write("out/sub", b"x")
    ec.ends(FAILURE, "extract", "way", "-o", "out", "--force", says="out/sub is not a directory\n")


def check_other_files(ec):
    """Files that have names of the set in other directories, or equal bytes, or other permissions, are nobody's but their owner's."""
    # (files of the tree, files elsewhere, what is removed, arguments of create, of repair), each in a folder of its own.
    long = {f"s/{i}": random.randbytes(9000) for i in range(6)}
    site = {"README": b"top readme", "rec/README": b"a's own", "x": random.randbytes(9000), "b/y": random.randbytes(9000)}
    for what, files, others, removed, create, repair in (
            ("a name in a folder of the tree", site, {}, [], ["-o", "t/p/rec"], ["t/p/rec", "t/p"]),
            ("the same, and it is lost", site, {}, ["README"], [], ["t/p/x", "t/p/rec", "t/p/b", "t/p"]),
            ("all names beside the shards", long, {f"d/{name}": random.randbytes(8000) for name in long}, ["s/1"], ["-o", "t/d"], ["t/d", "t/p"]),
            ("one name beside the shards", site, {"d/README": b"somebody else's"}, [], ["-o", "t/d"], ["t/d", "t/p"]),
            ("an older copy beside the shards", long, {f"d/s/{i}": random.randbytes(9000) for i in range(3)}, [], ["-o", "t/d"], ["t/d", "t/p"]),
            ("a copy of the tree", long, {f"d/{name}": content for name, content in long.items()}, ["s/2"], [], ["-r", "t/p", "t/d"]),
            ("a folder beside the shards", {"sub/a": b"a", **long}, {"d/sub/other": b""}, ["sub", "s"], ["-o", "t/d"], ["t/d", "t/p"]),
            ("equal bytes", {"a/__init__.py": b"# init", **long}, {"p/new/__init__.py": b"# init"}, ["a"], [], ["-r", "t/p"])):
        ec.fresh("t", "t/d")
        ec.fill("t/p", files)
        ec.right("create", "--keep", "-r", "--redundancy", "300%", *create, "t/p")
        time.sleep(0.02)  # times of files go by the clock's tick
        for name, content in others.items():
            ec.write(f"t/{name}", content)
        for name in removed:
            shutil.rmtree(ec.path(f"t/p/{name}")) if os.path.isdir(ec.path(f"t/p/{name}")) else os.remove(ec.path(f"t/p/{name}"))
        for paths in (repair, repair[::-1]) if len(repair) == 2 and "-r" not in repair else (repair,):
            ec.ends(DAMAGED if removed else OK, "verify", *paths, what=what)
        ec.ends(OK, "repair", *repair, what=what)
        expected = {f"p/{name}": content for name, content in files.items()} | others
        found = {name: content for name, content in ec.contents("t").items() if not name.endswith(".ec")}
        check(found == expected, f"{what}: {sorted(set(found.items()) ^ set(expected.items()))}")

    # All have another length, and a directory is named that holds none; or shards and one file are.
    for is_named in (False, True):
        files = {f"p/{i}": random.randbytes(5000) for i in range(3)}
        ec.fill("t", files)
        ec.fresh("t/d", "t/e")
        ec.right("create", "--keep", "-r", "--redundancy", "200%", "-o", "t/d", "t/p")
        for name, content in files.items():
            ec.write(f"t/{name}", content + b"x")
        if is_named:
            ec.remove("t/p/1", "t/p/2")
        shards = [f"t/d/{name}" for name in os.listdir(ec.path("t/d"))]
        ec.ends(OK, "repair", *([*shards, "t/p/0"] if is_named else ["t/d", "t/p", "t/e"]))
        found = {name: content for name, content in ec.contents("t").items() if not name.endswith((".ec", ".damaged"))}
        check(found == files, f"{is_named}: {sorted(found)}")

    ec.fill("t", {"key": b"secret", "x": random.randbytes(9000)})
    ec.right("create", "--keep", "--redundancy", "100%", "-r", "t")
    os.chmod(ec.path("t/key"), 0o600)
    ec.patch("t/key", 0, b"X")
    ec.ends(OK, "repair", "t")
    check(os.stat(ec.path("t/key")).st_mode & 0o777 == 0o600, "a private file is everybody's after repair")


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
        ec.ends(USAGE, "extract", *tree.places, "-o", "-", says="name a directory")
        ec.ends(OK, "extract", *tree.places, "-o", "out", what=arguments)
        expected, found = ({path: (content, mode, time) for path, (content, _, mode, time, *_) in states.items()}
                           for states in (tree.whole, state_of(os.fsencode(ec.path("out")))))
        check(found == expected, f"{arguments}: extracted {set(found.items()) ^ set(expected.items())}")
        tree.check_repair(f"{arguments}: all is lost")

    tree = Tree(ec, "tree", {"sub/a": 3000, "sub/b": 3000, "c": 3000}, "--redundancy", "100%", shards="shards")
    ec.fill("outside", dict.fromkeys("abc", b"mine"))
    before = ec.state_of("outside")
    shutil.rmtree(tree.path("sub"))
    os.symlink("../outside", tree.path("sub"))
    for command in (["repair", *tree.places], ["extract", *tree.places, "-o", "tree", "--force"]):
        status, _, err = ec(*command)
        check(status == FAILURE and err, f"a link in the place of a folder: {command} gives {status} {err}")
    os.unlink(tree.path("sub"))
    os.remove(tree.path("c"))
    os.symlink("../outside/c", tree.path("c"))
    ec.ends((OK, FAILURE), "repair", *tree.places, what="a link in the place of a file")
    check(ec.state_of("outside") == before, "nothing outside is written")

    ec.fill("tree", {"a": b"content"})
    ec.fill("outside", {"b": b"content"})
    os.symlink("../outside", ec.path("tree/link"))
    os.symlink("a", ec.path("tree/link to a"))
    os.mkfifo(ec.path("tree/pipe"))
    said = ec.ends(OK, "create", "--keep", "-r", "tree")
    check("link" in said and "pipe" in said, f"links are left out, and that is said: {said}")
    kept = shard_reader.Set([ec.path("tree")])
    check([entry.path for entry in kept.header.entries] == [b"a"], "links and pipes are not kept")


def check_names(ec):
    """What the names of a set are relative to: the deepest directory that holds all."""
    for given, names, place in ((["x/a", "x/b"], [b"a", b"b"], "x"), (["x/a", "y/a"], [b"x/a", b"y/a"], "."), (["-r", "x"], [b"a", b"b"], "x"),
                                (["-r", "x", "y"], None, "."), (["x/a"], [b"a"], "x")):
        ec.fill("names", {name: random.randbytes(1000) for name in ("x/a", "x/b", "y/a")})
        inside = Ec(ec.program, ec.path("names"))
        inside.right("create", "--keep", *given)
        kept = shard_reader.Set([inside.path(place)])
        found = [entry.path for entry in kept.header.entries]
        check(found == names or not names and {b"x/a", b"x/b", b"y/a"} <= set(found), f"{given}: {found}")
        check(any(name.endswith(".ec") for name in inside.files(place)), f"{given}: the shards are in {place}")
        inside.right("verify", place)


def check_shapes(ec):
    """What --redundancy means."""
    ec.fill("set", {"a": random.randbytes(300000)})
    for given, shape in ((["--redundancy", "10%"], (200, 20)), (["--redundancy", "100%"], (127, 127)), ([], (200, 20)), (["-k", "20", "-m", "2"], (20, 2)),
                         (["--redundancy", "1%"], (200, 2)), (["-k", "10", "--redundancy", "25%"], (10, 3))):
        ec.right("create", "--keep", "set/a", *given)
        header = shard_reader.Set([ec.path("set")]).header
        check((header.k, header.m) == shape, f"{given}: {header.k}+{header.m}")
        ec.remove(*(f"set/{name}" for name in ec.files("set") - {"a"}))
    for given in (["--redundancy", "10%", "-m", "2"], ["--redundancy", "0%"], ["--redundancy", "x"], ["--redundancy", "10%", "-k", "250"],
                  ["-k", "3", "-m", "-1"]):
        ec.ends(USAGE, "create", "--keep", "set/a", *given)
    ec.ends(USAGE, "create", "set/a", "--redundancy", "10%", "-m", "2", "-o", "set")


def check_places(ec):
    """Files elsewhere than their shards, and columns without any sums."""
    tree = Tree(ec, "tree", {"a": 20000, "sub/b": 30000}, "-k", "4", "-m", "2", shards="shards")
    ec.ends(LOST, "verify", "shards", what="the files are not beside the shards")
    ec.remove("shards/tree.004.ec")
    ec.right("repair", *tree.places, "-q")
    check(ec.files("shards") == {"tree.004.ec", "tree.005.ec"}, f"a shard is made anew beside the others: {ec.files('shards')}")
    header = tree.kept.header
    for name in ("shards/tree.004.ec", "shards/tree.005.ec"):
        shard = bytearray(ec.read(name))
        shard[header.bytes + 100] ^= 1
        ec.write(name, shard)
    ec.ends(DAMAGED, "verify", *tree.places, what="a column has no sums, and the files are right")
    tree.damage_block(0, 0)
    tree.check_lost("a column has no sums, and the files are wrong")
    tree.damage_block(0, 0)
    tree.check_repair("a column has no sums, and the files are right")
    for arguments in (["-"], ["-r", "-"], ["tree"], ["nothing"]):
        status, _, err = ec("create", "--keep", *arguments, stdin=subprocess.DEVNULL)
        check(status in (USAGE, FAILURE) and err, f"create --keep {arguments}: {status} {err}")


def check_format_1(ec):
    """Sets that earlier releases made."""
    with tarfile.open(FORMAT_1) as archive:
        stored = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    for lost in ((), ("a",), ("a.002.ec",), ("b", "a.003.ec")):
        ec.fresh("out")
        ec.fill("old", stored)
        ec.right("verify", "old")
        ec.remove(*(f"old/{name}" for name in lost))
        ec.ends(DAMAGED if lost else OK, "verify", "old", what=f"without {lost}")
        ec.ends(OK, "extract", "old", "-o", "out", what=f"without {lost}")
        check(ec.contents("out") == {name: stored[name] for name in ("a", "b")}, f"{lost}: extract")
        ec.ends(OK, "repair", "old", what=f"without {lost}")
        check(stored.items() <= ec.contents("old").items(), f"{lost}: repair")


def check_claims(ec):
    """What a header claims is no work, takes no memory, and leads nowhere."""
    limit = limited(resource.RLIMIT_AS, 1 << 30)
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
        before = tree.state()
        what = ", ".join(f"{key}: {str(value)[:100]}" for key, value in other.items())
        for command in (["verify", "claims"], ["repair", "claims"], ["extract", "claims", "-o", "out"]):
            ec.ends(right, *command, says="beyond repair" if right == LOST else "", what=what, preexec_fn=limit, timeout=120)
        check(tree.state() == before and not ec.files("out"), f"{what}: nothing changes")


def check_host(ec):
    """No permission, two at once: no damage, and nothing is touched."""
    sizes = {f"{i % 20}/{i}": random.randrange(20000) for i in range(500)}
    tree = Tree(ec, "many", sizes, "--redundancy", "20%")

    tree.remove(b"1/1", b"2/2")
    held = os.open(tree.path(), os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    ec.ends(FAILURE, "repair", "many", says="another ec is at work in many")
    os.close(held)
    held = os.open(tree.path(b"many.200.ec"), os.O_RDWR)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    ec.ends(FAILURE, "verify", "many", says="many.200.ec cannot be opened: a process has a lease on it", timeout=120)
    os.close(held)
    runs = [subprocess.Popen([ec.program, "repair", "many"], cwd=ec.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [(run.communicate()[1], run.returncode) for run in runs]
    check(any(status == OK for _, status in ends) and all(status == OK or status == FAILURE and err for err, status in ends), f"two at once: {ends}")
    tree.check_repair("two at once")

    if os.geteuid() == 0:
        def nobody():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        denied = ec.path("ec")  # where everybody may run it
        shutil.copy(ec.program, denied)
        os.chmod(ec.folder, 0o711)
        others = Ec(denied, ec.folder)
        if others("--version", preexec_fn=nobody)[0] != OK:
            return False
        for place, _, names in os.walk(tree.path()):
            for name in [".", *names]:
                os.chown(os.path.join(place, name), 65534, 65534)
        for path in (b"4/4", b"4", b"many.200.ec"):
            was = os.stat(tree.path(path)).st_mode
            os.chmod(tree.path(path), 0)
            for command in ("verify", "repair"):
                before = tree.state()
                said = others.ends(FAILURE, command, "many", says="ermission", what=f"{path} may not be read", preexec_fn=nobody)
                check(os.fsdecode(path) in said and tree.state() == before, f"{path} may not be read: {command} says {said}")
            os.chmod(tree.path(path), was)
        ec.write("many/foreign", b"of nobody's business")
        os.chmod(tree.path("foreign"), 0)
        others.ends(OK, "verify", "many", says="many/foreign cannot be opened", preexec_fn=nobody)

        def seen(place):
            return {name: (content, mode) for name, (content, _, mode, *_) in ec.state_of(place).items()}

        # Files that their owner may not write, and umasks that would make such, or what nobody may open.
        for umask in (0o022, 0o277, 0o477, 0o777):
            fixed = {"preexec_fn": nobody, "umask": umask}
            ec.fresh("fixed", "fixed/a", "set", "out")
            ec.write("fixed/a/1", random.randbytes(3000))
            os.chmod(ec.path("fixed/a/1"), 0o444)
            for name in ("fixed/a/1", "fixed/a", "fixed", "set", "out"):
                os.chown(ec.path(name), 65534, 65534)
            others.right("create", "fixed/a/1", "-k", "2", "-m", "3", "-o", "set", **fixed)
            others.right("create", "--keep", "-r", "fixed", "-k", "2", "-m", "3", **fixed)
            whole = {place: seen(place) for place in ("set", "fixed")}
            modes = [mode for files in whole.values() for name, (_, mode) in files.items() if name.endswith(".ec")]
            check(modes == [0o444 & ~(umask & 0o077)] * 8, f"umask {umask:o}: shards have modes {modes}")
            others.right("extract", "fixed", "-o", "out", **fixed)
            shutil.rmtree(ec.path("fixed/a"))
            ec.remove("fixed/fixed.002.ec", "set/1.000.ec")
            for place in whole:
                others.ends(OK, "repair", place, **fixed)
                check(seen(place) == whole[place] and seen("out").items() <= whole["fixed"].items(), f"umask {umask:o}: {place}")

        # A default ACL by which an owner may write into no new directory: version 2, then tag, permissions and no name of each entry.
        denying = struct.pack("<I" + 3 * "HHI", 2, *(number for tag in (1, 4, 32) for number in (tag, 5, 2**32 - 1)))
        ec.fresh("out")
        os.chown(ec.path("out"), 65534, 65534)
        with contextlib.suppress(OSError):  # a file system without ACLs
            os.setxattr(ec.path("out"), "system.posix_acl_default", denying)
        others.right("extract", "fixed", "-o", "out", **fixed)
        check(seen("out").items() <= whole["fixed"].items(), "a default ACL")
    return os.geteuid() == 0


def main():
    given = given_options(all=False, size=3000000, seed=random.SystemRandom().randrange(1 << 48))
    random.seed(given.seed)
    print(f"--seed {given.seed}", flush=True)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # of a lease that is to be given back
    with in_folder(given.program) as ec:
        for each in (check_shapes, check_names, check_format_1, check_places, check_trees, check_moves, check_second_reading, check_names_in_the_way, check_directories_in_the_way, check_other_files, check_claims):
            each(ec)
        has_other_users = check_host(ec)
        check_losses(ec, given.all, given.size)
        check_small_files(ec, given.all)
    if not has_other_users:
        print("files that other users may not read or write: only root can make them, where others may run ec")
        sys.exit(77)


if __name__ == "__main__":
    main()
