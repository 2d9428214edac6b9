"""Random damage to sets of shards: ec never gives wrong bytes with exit status 0, and always heals where no stripe has lost
more than m blocks. What can be healed is said by shard_reader.py.

damage_test.py EC [--count N] [--seed S]: N cases; a failure names its seed, which repeats it with --count 1.
"""
import os
import random
from uuid import UUID

import shard_reader
import shard_writer
from program import DAMAGED, FAILURE, LOST, OK, USAGE, check, given_options, in_folder

SHAPES = [(2, 1, "cauchy"), (2, 2, "reed_sol_van"), (3, 2, "cauchy"), (4, 2, "cauchy"), (5, 1, "cauchy"), (6, 3, "reed_sol_van"),
          (10, 4, "cauchy"), (4, 8, "cauchy"), (20, 6, "cauchy"), (40, 10, "cauchy")]

# Each found a fault once: a shard in a kept file's place; two damaged files of one shard that made up for each other; in the reader, a
# small file of a shared block under another one's name, and a file under another name where no record is left.
FIRST_SEEDS = [275405533724803, 7022301, 34996314600654, 7014483]

seen: set[tuple[bool, bool]] = set()  # whether a set could be healed, and whether it was whole


class Case:
    def __init__(self, ec, seed):
        self.ec, self.seed = ec, seed
        self.random = random.Random(seed)
        self.keeps_files = self.random.random() < 0.4 or isinstance(self, KeptCase)
        self.place = ["-r", "set"] if isinstance(self, KeptCase) else ["set"]
        self.said = ""

    def check(self, condition, what):
        check(condition, f"--seed {self.seed}: {what}\n{self.said}")

    def ends(self, status, *arguments, **options):
        """ec ends with this status, or with one of these; returns it."""
        ended, _, self.said = self.ec(*arguments, **options)
        self.check(ended == status or isinstance(status, list) and ended in status, f"{arguments[0]} gives {ended}, not {status}")
        return ended

    def create(self, place, content, k, m, technique):
        """Returns the files of the set, by name. Kept files of format 1 are made by the writer beside this test: ec reads them."""
        self.ec.fresh(place)
        arguments = ["create", "-k", str(k), "-m", str(m), "--technique", technique, "-o", place]
        self.ec.write(f"{place}/object" if self.keeps_files else "object", content)
        if self.keeps_files:
            shard_writer.keep_by_format_1(self.ec.path(place), ["object"], k, m, technique, 65536)
        elif self.random.random() < 0.3:
            self.ends(OK, *arguments, "--name", "object", "-", input=content)
        else:
            self.ends(OK, *arguments, "object")
        shards = self.ec.contents(place)
        self.check(len(shards) == (1 + m if self.keeps_files else k + m), "the number of files")
        return shards

    def make(self):
        """What is coded, by name, and the files of its set and of a foreign one."""
        rnd = self.random
        shape = k, _, _ = rnd.choice(SHAPES)
        one_stripe = k * 65520
        size = rnd.choice([0, 1, rnd.randrange(5000), rnd.randrange(one_stripe), one_stripe, one_stripe + 1,
                           min(rnd.randrange(6 * one_stripe), 2000000)])
        content = rnd.randbytes(size)
        return {"object": content}, self.create("whole", content, *shape), self.create("foreign", content, *shape)

    def damage(self, files, foreign):
        """One more thing wrong with the files, a dictionary."""
        rnd = self.random
        name = rnd.choice(sorted(files) or ["x"])
        data = bytearray(files.get(name, b""))
        record = max(1, (len(data) - 8192) // 65536)
        kind = rnd.choice(["flip", "flip", "flip", "zeros", "cut", "longer", "missing", "missing", "swap", "foreign", "copy",
                           "move block", "header", "header of another", "two in one", "garbage"])
        other = rnd.choice(sorted(files) or ["x"])
        if kind == "flip":
            for _ in range(rnd.choice([1, 1, 2, 8])):
                if data:
                    data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)
        elif kind == "zeros" and data:
            at = rnd.randrange(len(data))
            end = min(len(data), at + rnd.choice([1, 512, 4096, 70000]))
            data[at:end] = bytes(end - at)
        elif kind == "cut":
            del data[rnd.randrange(len(data) + 1):]
        elif kind == "longer":
            data += rnd.randbytes(rnd.choice([1, 4096, 10000]))
        elif kind == "missing":
            return files.pop(name, None)
        elif kind == "swap" and name in files:
            files[name], files[other] = files[other], files[name]
            return None
        elif kind == "foreign":
            data = bytearray(foreign[rnd.choice(sorted(foreign))])
        elif kind == "copy":
            name = f"copy {rnd.randrange(3)}"
            data = bytearray(files.get(other, b""))
        elif kind == "move block" and len(data) == len(files.get(other, b"")) and len(data) > 65536 + 8192:
            at, to = (4096 + 65536 * rnd.randrange(record) for _ in range(2))
            data[to:to + 65536] = files[other][at:at + 65536]
        elif kind == "header" and len(data) > 8192:
            at = rnd.choice([0, len(data) - 4096]) + rnd.randrange(4096)
            data[at] ^= 1 << rnd.randrange(8)
        elif kind == "header of another" and len(data) > 8192:
            data[:4096] = (foreign if rnd.random() < 0.5 else files).get(other, data)[:4096]
        elif kind == "two in one" and len(data) > 8192 and other in files:
            data[:4096] = files.pop(other)[:4096]
        elif kind == "garbage":
            data[:] = rnd.randbytes(min(len(data), 20000))
        files[name] = bytes(data)
        return None

    def run(self):
        files, whole, foreign = self.make()
        there = shard_reader.Set([self.ec.path("whole")])
        uuid = there.header.uuid
        if self.random.random() < 0.1:
            self.check(there.has_right_coding() and self.restored(there) == files, "the bytes are those of the format")
        damaged = self.damaged(whole, foreign, there.header.m)
        self.ec.fill("set", damaged)
        there = shard_reader.Set([self.ec.path("set")], uuid)
        if there.header:
            self.compare(there, files, whole, damaged)
        else:
            self.ends(FAILURE, "verify", *self.place, "--set", str(UUID(bytes=uuid)))

    def restored(self, shards):
        return {os.fsdecode(name): data for name, data in shards.restored().items()}

    def damaged(self, whole, foreign, m):
        """The files with several things wrong with them."""
        files = dict(whole)
        for _ in range(self.random.choice([0, 1, 1, 2, m, m, m + 1, 2 * m + 1])):
            self.damage(files, foreign)
        return files

    def has_all(self, found, whole):
        """Shards under whatever names, kept files under theirs."""
        return set(whole.values()) <= set(found.values()) and all(found.get(name) == whole[name] for name in whole if not name.endswith(".ec"))

    def choice(self, there):
        """Words that choose the set where it is not the only one that could be meant; elsewhere what that says."""
        uuid, claims = there.header.uuid, {u: len(s) >= there.needed[u] for u, s in there.claims.items()}
        if len(claims) == 1 or (claims[uuid] and sum(claims.values()) == 1):
            return []
        if sum(claims.values()) != 1:
            self.ends(USAGE, "verify", *self.place)
        return ["--set", str(UUID(bytes=uuid))]

    def files_in(self, place):
        """Without the directories, whose times change when a temporary file goes."""
        return {name: state for name, state in self.ec.state_of(place).items() if state[0] is not None}

    def compare(self, there, files, whole, damaged):
        chosen = [*self.place, *self.choice(there)]
        right = there.is_recoverable()
        is_whole = right and self.has_all(damaged, whole)
        if not right and there.header.version == 2:
            there.search()
        # What the reader finds only by its search may be found, and is right then.
        expected = [OK] if is_whole else [DAMAGED] if right else [DAMAGED, LOST] if there.is_recoverable() else [LOST]
        right = self.ends(expected, "verify", *chosen) != LOST
        seen.add((right, is_whole))
        if right and self.random.random() < 0.2:
            self.check(self.restored(there) == files, "the independent reader gives the content")

        to_stdout = len(self.place) == 1 and self.random.random() < 0.5
        self.ec.fresh("out")
        with open(self.ec.path("stdout"), "w+b") as stdout:
            self.ends(OK if right else LOST, "extract", *chosen, "-o", "-" if to_stdout else "out", stdout=stdout)
        out, found = self.ec.read("stdout"), self.ec.contents("out")
        self.check(found == (files if right and not to_stdout else {}), "extracted: the content, or nothing")
        # Without any sums it shows at the end alone that the files are not what they were.
        if to_stdout and (right or not self.keeps_files):
            [content] = files.values()
            self.check(out == content if right else content.startswith(out), "written: the content")

        before = self.files_in("set")
        self.ends(OK if right else LOST, "repair", *chosen)
        state = self.files_in("set")
        after = {name: content for name, (content, *_) in state.items()}
        if not right:
            self.check(before == state, "repair beyond repair changes nothing")
            return
        self.check(self.has_all(after, whole), "after repair every file is as it was")
        for name, data in damaged.items():
            is_right = data == whole.get(name) or not self.keeps_files and data in whole.values()
            self.check(not is_right or before[name] == state.get(name), f"{name} was whole and is touched")
            self.check(not self.keeps_files or data in after.values() or shard_reader.headers_of(data), f"{name} is gone")
        self.ends(OK, "verify", *chosen)


class KeptCase(Case):
    """The same for a tree of files that are kept by format 2."""

    def damage(self, files, foreign):
        """Or with a kept file alone: its bytes or its name."""
        rnd = self.random
        if rnd.random() >= 0.25:
            super().damage(files, foreign)
            return
        name = rnd.choice(sorted(name for name in files if not name.endswith(".ec")) or ["x"])
        data = files.pop(name, b"")
        at = rnd.randrange(len(data) + 1)
        kind = rnd.choice(["insert", "remove", "rename", "move"])
        if kind == "insert":
            files[name] = data[:at] + rnd.randbytes(rnd.choice([1, 3, 1000])) + data[at:]
        elif kind == "remove":
            files[name] = data[:at] + data[at + rnd.choice([1, 3, 1000]):]
        else:
            files["other name" if kind == "rename" else f"other/{os.path.basename(name)}"] = data

    def make(self):
        rnd = self.random
        sizes = [0, 1, 511, 512, 513, rnd.randrange(3000), rnd.randrange(3000), rnd.randrange(40000)]
        files = {f"{rnd.choice(['', 'a/', 'b/c/'])}{i}": rnd.randbytes(rnd.choice(sizes)) for i in range(rnd.randrange(1, 12))}
        shape = rnd.choice([[], ["--redundancy", "30%"], ["-k", "5", "-m", "2"], ["-k", "20", "-m", "6"], ["-k", "3", "-m", "4"]])
        sets = []
        for place in ("whole", "foreign"):
            self.ec.fill(place, files)
            self.ends(OK, "create", "--keep", "-r", place, "--name", "set", *shape)
            sets.append(self.ec.contents(place))
        return files, *sets

    def choice(self, there):
        return ["--set", str(UUID(bytes=there.header.uuid))]


def main():
    given = given_options(count=300, seed=random.SystemRandom().randrange(1 << 48))
    for seed in (*FIRST_SEEDS, *range(given.seed, given.seed + given.count)):
        with in_folder(given.program) as ec:
            (KeptCase if seed % 3 == 0 else Case)(ec, seed).run()
    check(given.count < 200 or len(seen) == 3, f"whole sets, others that can be healed, and lost ones: {seen}")
    print(f"{given.count} cases from seed {given.seed}")


if __name__ == "__main__":
    main()
