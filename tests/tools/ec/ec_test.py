"""Runs ec as its users do: the examples of docs/ec.md, interruptions, limits, terminals.

ec_test.py EC DOCS/ec.md [--kills N]
"""
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import time

from program import DAMAGED, FAILURE, LOST, OK, USAGE, check, given_options, in_folder, limited


def check_examples(ec, document):
    """As a reader types them, in one folder."""
    with open(document, encoding="utf-8") as file:
        blocks = re.findall(r"^```sh ec.use\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    check(len(blocks) == 4, f"four examples, not {len(blocks)}")
    photos = ("rome/a.jpg", "rome/b.jpg", *(f"{c}.jpg" for c in "cdefghijklmnopqrstuvw"))
    ec.fill("examples", {"film.mkv": random.randbytes(3000000), **{f"photos/{name}": random.randbytes(100000) for name in photos}})
    for block in blocks:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=ec.path("examples"), text=True, capture_output=True, check=False,
                              env={**os.environ, "PATH": f"{os.path.dirname(ec.program)}:{os.environ['PATH']}"})
        check(done.returncode == 0, f"{block}\nexit {done.returncode}: {done.stdout}{done.stderr}")


def check_words(ec):
    ec.fresh("words")
    check(ec.right("--version").startswith("ec "), "--version")
    check("ec create FILE..." in ec.right("--help"), "--help")
    ec.write("object", b"content")
    check(ec.right("create", "object", "-o", "words", "-q") == "", "--quiet")
    check('"bytes": 7' in ec.right("info", "--json", "words"), "info --json")
    check("7 object" in ec.right("info", "words"), "info")
    ec.ends(FAILURE, "create", "object", "-o", "words", says="is there already")
    ec.remove("words/object.000.ec")
    ec.ends(DAMAGED, "verify", "--json", "words", says='"state": "missing"')
    ec.ends(FAILURE, "extract", "words", says="--force replaces it")
    ec.write("object", b"other")
    check(ec.ends(OK, "extract", "words", "--force", "-q") == "" and ec.read("object") == b"content", "--force")
    ec.remove(*(f"words/object.{i:03}.ec" for i in range(1, 6)))
    ec.ends(LOST, "extract", "words", "-o", "-", says="beyond repair")


def check_identify(ec):
    """The coded bytes of our own shards would lie behind headers and checksums; these are 2+2 by jerasure's first two rows."""
    ec.fresh("shards")

    def double(byte):
        return byte << 1 ^ (0x11d if byte & 0x80 else 0)

    names = [f"shards/{name}" for name in "abpq"]
    for length, header in ((500, b""), (300000, b"\x01\x02\x03")):
        a, b = random.Random(length).randbytes(length), random.Random(length + 1).randbytes(length)
        contents = [a, b, bytes(x ^ y for x, y in zip(a, b)), bytes(x ^ double(y) for x, y in zip(a, b))]
        for i, (name, content) in enumerate(zip(names, contents)):
            ec.write(name, header + bytes([i] * min(len(header), 1)) + content)
        found = json.loads(ec.right("identify", "--json", *names))
        check(found["k"] == 2 and "isal_reed_sol_van" in [fit["dialect"] for fit in found["fits"]], found)
        check(found["skip"] == (4 if header else 0) and found["files"] == names and found["bytes"] == length + found["skip"], found)
        check(found["fits"][0]["order"] == [0, 1, 2, 3], found)
    check("k = 2 data shards" in ec.right("identify", *names), "identify")
    ec.ends(DAMAGED, "identify", "--skip", "0", *names, says="the first bad byte is")
    ec.patch(names[1], 4, bytes(20000))
    ec.ends(DAMAGED, "identify", *names, says="damaged: shards/b\nthe first bad byte is 4\n")
    for name in names[1:]:
        ec.write(name, os.urandom(5000))
    ec.ends(LOST, "identify", *names[1:], says="cannot tell k")
    ec.ends(USAGE, "identify", names[0], says="ec: 1 files; allowed are 2 to 255\n")
    ec.ends(FAILURE, "identify", names[0], "shards/none", says="shards/none")
    ec.ends(FAILURE, "identify", names[0], "shards", says="shards")


def check_shapes(ec):
    """The widest sets; and modes."""
    for k, m in ((253, 2), (200, 55), (2, 253)):
        content = random.randbytes(300000)
        ec.code(content, "-k", str(k), "-m", str(m))
        ec.remove(*(f"set/{name}" for name in random.sample(sorted(ec.files("set")), m)))
        ec("extract", "set", "-o", "out")
        check(ec.read("out/object") == content, f"{k}+{m}")
        ec.ends(OK, "repair", "set")
        check(len(ec.files("set")) == k + m, f"repair {k}+{m}")
        ec.right("verify", "set")
    ec.write("secret", b"secret")
    os.chmod(ec.path("secret"), 0o600)
    ec.fresh("set", "out")
    ec.right("create", "secret", "-o", "set")
    ec.right("extract", "set", "-o", "out")
    for name in [f"set/{n}" for n in ec.files("set")] + ["out/secret"]:
        mode = stat.S_IMODE(os.stat(ec.path(name)).st_mode)
        check(mode == 0o600, f"{name} has mode {mode:o}")


def check_limits(ec):
    """A file system that takes no more: an error, and nothing is left."""
    ec.fresh("set", "out")
    ec.write("object", random.randbytes(3000000))
    limit = limited(resource.RLIMIT_FSIZE, 150000)
    for arguments, text in ((("create", "object", "-o", "set"), None), (("create", "-", "-o", "set"), ec.read("object"))):
        ec.ends(FAILURE, *arguments, says="File too large", preexec_fn=limit, input=text)
        check(ec.files("set") == set(), f"{arguments} leaves nothing")
    ec.right("create", "object", "-o", "set")
    ec.ends(FAILURE, "extract", "set", "-o", "out", preexec_fn=limit)
    check(ec.files("out") == set(), "extract leaves nothing")
    with open("/dev/full", "wb") as full:
        ec.ends(FAILURE, "extract", "set", "-o", "-", says="No space left", stdout=full)
        ec.ends(FAILURE, "--help", says="standard output cannot be written", stdout=full)


def check_sparse(ec):
    """A file with holes is extracted with holes, where this file system makes them."""

    def allocated(name):
        return 512 * os.stat(ec.path(name)).st_blocks

    size = 4 << 20
    ec.fresh("set", "out", "kept", "whole")
    for name in ("object", "kept/object"):
        ec.write(name, b"")
        os.truncate(ec.path(name), size)
        ec.patch(name, size // 3, b"content")
    content = ec.read("object")
    ec.right("create", "object", "-k", "4", "-m", "2", "-o", "set")
    ec.right("extract", "set", "-o", "out")
    ec.write("kept/other", random.randbytes(size + size // 2))
    ec.right("create", "--keep", "-k", "4", "-m", "2", "kept/object", "kept/other")
    ec.remove("kept/object")
    # Not repair, which reserves all space before its first change.
    ec.ends(OK, "extract", "kept", "-o", "whole")
    for name in ("out/object", "whole/object"):
        check(ec.read(name) == content, f"{name} is what it was")
        check(allocated("object") == size or allocated(name) < size // 2, f"{name} has {allocated(name)} bytes of {size} on disk")


def check_terminal(ec):
    """A bar on a terminal; nothing of it in a pipe or with --quiet."""
    ec.fresh("set")

    def said(*arguments):
        master, slave = pty.openpty()
        with subprocess.Popen([ec.program, "create", "-", *arguments], cwd=ec.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=slave) as process:
            os.close(slave)
            for _ in range(8):
                process.stdin.write(bytes(100000))
                process.stdin.flush()
                time.sleep(0.1)
            process.stdin.close()
            text = b""
            try:
                while part := os.read(master, 4096):
                    text += part
            except OSError:
                pass  # the other end is closed
        os.close(master)
        check(process.returncode == OK, f"create on a terminal: {text}")
        return text

    check(b"GB/s" in said("-o", "set", "--name", "a"), "progress on a terminal")
    check(said("-o", "set", "--name", "b", "--quiet") == b"", "--quiet on a terminal")


def check_leftovers(ec):
    """What create leaves when it is killed while it gives names: some shards have theirs, the others are temporary."""
    content = random.randbytes(100000)
    for named in range(7):
        ec.code(content, "-k", "4", "-m", "2")
        for i in range(named, 6):
            os.rename(ec.path(f"set/object.{i:03}.ec"), ec.path(f"set/.ec-{i}.tmp"))
        ec.ends(*((DAMAGED, "verify", "set") if named < 6 else (OK, "verify", "set")),
                says=f"shard {named}: it has a temporary name" if named < 6 else "all 6 shards are whole")
        ec.right("extract", "set", "-o", "out")
        check(ec.read("out/object") == content, f"{named} shards have their names")
        ec.right("repair", "set")
        check(ec.files("set") == {f"object.{i:03}.ec" for i in range(6)}, f"{ec.files('set')}")
    ec.write("set/.ec-1.tmp", bytes(100000))
    ec.ends(OK, "verify", "set", says="1 files .ec-*.tmp")


def check_copies(ec):
    """A damaged file of a shard that is whole elsewhere is named, and nothing depends on that file."""
    ec.fresh("set")
    ec.write("object", random.randbytes(100000))
    ec.right("create", "object", "-k", "4", "-m", "2", "-o", "set")
    shutil.copy(ec.path("set/object.001.ec"), ec.path("set/copy"))
    ec.patch("set/copy", 5000, b"rust")
    before = ec.state_of("set")
    said = "shard 1: set/copy: 1 blocks are lost; another file is this shard, whole\n"
    ec.ends(OK, "verify", "set", says=said + "all 6 shards are whole\n")
    ec.ends(OK, "repair", "set", says=said + "nothing is to be made anew\n")
    check(ec.state_of("set") == before, "nothing changed")
    ec.remove("set/object.002.ec")
    ec.ends(OK, "repair", "set", says=said + "shard 2: missing\n")


SHAPE = ["-k", "4", "-m", "2", "-o", "set"]
VERBS = {"create": ["create", "object", *SHAPE], "create -": ["create", "-", "--name", "object", *SHAPE],
         "extract": ["extract", "set", "-o", "out"], "repair": ["repair", "set"], "repair kept": ["repair", "set"]}


def damaged_set(ec, keeps_files):
    """Its state before it was damaged, and after."""
    if keeps_files:
        names = [f"set/{i}" for i in range(9)]
        for name in names:
            ec.write(name, random.randbytes(2000000))
        ec.right("create", "--keep", "-k", "20", "-m", "10", *names)
    else:
        ec.right("create", "object", *SHAPE)
    whole = ec.state_of("set")
    lost, damaged = random.sample([name for name in whole if not keeps_files or not name.endswith(".ec")], 2)
    ec.remove(f"set/{lost}")
    ec.patch(f"set/{damaged}", random.randrange(len(whole[damaged][0])), random.randbytes(4))
    return whole, ec.state_of("set")


def check_interruptions(ec, kills):
    """At any moment: afterwards each file is the old one or the new one, and a second run ends it."""
    content = random.randbytes(20000000)
    ec.write("object", content)
    usual = dict.fromkeys(VERBS, 0.3)  # seconds
    seen = set()
    for i in range(kills):
        verb = random.choice(list(VERBS))
        how = random.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        ec.fresh("set", "out")
        whole, before = damaged_set(ec, verb.endswith("kept")) if not verb.startswith("create") else ({}, {})
        begin = time.monotonic()
        with open(ec.path("object"), "rb") as source, subprocess.Popen([ec.program, *VERBS[verb]], cwd=ec.folder, stdin=source,
                                                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(random.uniform(0, 1.1 * usual[verb]))
                usual[verb] = (usual[verb] + time.monotonic() - begin) / 2
            except subprocess.TimeoutExpired:
                process.send_signal(how)
        status = process.returncode
        what = f"kill {i}: {verb}, {how.name}, exit {status}"
        check(status in (OK, -how), what)
        seen.add((verb, status == OK))
        after = ec.state_of("set")
        left = {name for name in [*after, *ec.files("out")] if name.endswith(".tmp")}
        check(how == signal.SIGKILL or not left, f"{what} leaves {left}")
        for name, state in whole.items():
            old, new = before.get(name, [None]), after.get(name, [None])
            check(new[0] in (old[0], state[0]), f"{what}: {name} is neither the old one nor the new one")
            check(old[0] != state[0] or new == old, f"{what}: {name} was whole and is touched")
        check(all(old[0] in [new[0] for new in after.values()] for old in before.values()) or verb == "repair", f"{what}: what was damaged has some name")
        found = ec("verify", "set")
        if verb.startswith("create") and found[0] == FAILURE:  # the old state: no shard
            check(status != OK and "no shard" in found[2] and not any(n.endswith(".ec") for n in after), f"{what}: {found}")
            continue
        check(found[0] in (OK, DAMAGED), f"{what}: {found}")
        check(ec.contents("out").get("object", content) == content and ("object" in ec.files("out") or verb != "extract" or status != OK), what)
        ec.ends(OK, "repair", "set", what=what)
        there = ec.contents("set")
        check(all(there.get(name) == state[0] for name, state in whole.items()), f"{what}: what is repaired")
        check(whole or set(there) - left == {f"object.{n:03}.ec" for n in range(6)}, f"{what}: {sorted(there)}")
        ec.ends(OK, "extract", "set", "-o", "out", "--force", what=what)
        check(verb == "repair kept" or ec.read("out/object") == content, f"{what}: content")
    check(kills < 60 or len({ended for _, ended in seen}) == 2, f"some were interrupted and some not: {seen}")
    check(kills < 100 or len(seen) == 2 * len(VERBS), f"each was interrupted and was not: {seen}")
    print(f"kills: {kills}")


def check_changing(ec):
    """A file that grows while it is read is refused."""
    ec.fresh("set")
    ec.write("growing", b"")
    os.truncate(ec.path("growing"), 200000000)
    with subprocess.Popen([ec.program, "create", "growing", "-o", "set"], cwd=ec.folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            with open(ec.path("growing"), "ab") as file:
                file.write(b"more")
        err = process.stderr.read()
    check(process.returncode == FAILURE and b"changed while it was read" in err, f"{process.returncode}: {err}")
    check(ec.files("set") == set(), "nothing is left")


def main():
    given = given_options("document", kills=60)
    with in_folder(given.program) as ec:
        check_examples(ec, given.document)
        for each in (check_words, check_identify, check_shapes, check_limits, check_sparse, check_terminal, check_changing,
                     check_leftovers, check_copies):
            each(ec)
        check_interruptions(ec, given.kills)


if __name__ == "__main__":
    main()
