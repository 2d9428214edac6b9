"""What the host and other users do to ec meanwhile.

host_test.py EC ALLOCATOR [--swaps N] [--faults N] [--untraced]: N runs of repair and extract while directories and files are replaced by
links to elsewhere, where nothing may change; N system calls of repair that fail (by strace), and N allocations (by the preload
ALLOCATOR), each in a run of its own. --untraced: without faults, for a sanitizer's build, whose runtime has an allocator and system
calls of its own and does not run under a tracer.
"""
import collections
import contextlib
import functools
import json
import multiprocessing
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import typing

import shard_reader
import shard_writer
from program import FAILURE, LOST, OK, USAGE, check, given_options, in_folder, limited

ERRORS = ["EIO", "ENOMEM", "EMFILE", "EACCES", "EINTR", "ENOSPC"]
UNSUPPORTED = {"renameat2": "EINVAL", "linkat": "EPERM", "fallocate": "EOPNOTSUPP", "flock": "ENOLCK", "fchown": "EPERM"}
# A set of shards, files that are kept, and files that an earlier release has kept.
FORMS = ("shards", "kept", "kept by format 1")
# These cannot fail (brk has no error), or end the program as they should.
NO_FAULTS = {"brk", "execve", "exit", "exit_group", "rt_sigreturn", "arch_prctl", "restart_syscall", "close", "futex"}


def make_set(ec, form, size):
    """A damaged set in the folder `set`; returns its files as they were whole."""
    ec.fresh("set", "away", "out")
    keeps_files = form != "shards"
    names = ["set/a", "set/b", "set/.c"] if keeps_files else ["a", "b", ".c"]
    for name in names:
        ec.write(name, random.randbytes(size))
        os.chmod(ec.path(name), 0o640)
    if form == "kept by format 1":
        # Stripes run along the files, so a lost one needs as many coding shards as data shards.
        shard_writer.keep_by_format_1(ec.path("set"), ["a", "b", ".c"], 2, 4, "cauchy", 4096)
    else:
        ec.right("create", *(["--keep"] if keeps_files else []), "-k", "4", "-m", "3", "-o", "set", *names)
    for name in set(names) - ec.files("."):
        shutil.copy2(ec.path(name), ec.folder)
    whole = ec.contents("set")
    ec.remove("set/a" if keeps_files else "set/a.001.ec")
    for name in ["set/a.005.ec"] + ["set/b"] * keeps_files:
        ec.patch(name, 5000, b"rust")
    return whole


def swap(folder, stop):
    """Puts links in the place of the directories and of their files, and takes them away again, until it is to stop."""
    rnd = random.Random()
    while not stop.is_set():
        place = rnd.choice(["set", "out"])
        names = [] if rnd.random() < 0.5 else os.listdir(os.path.join(folder, place))
        path = os.path.join(place, *rnd.sample(names, min(1, len(names))))
        full, away = os.path.join(folder, path), os.path.join(folder, "away", path.replace("/", "+"))
        with contextlib.suppress(OSError):  # ec has put something there, or taken it
            os.rename(full, away)
            os.symlink(os.path.join(folder, f"outside {path}"), full)
            stop.wait(rnd.uniform(0, 0.004))
            os.unlink(full)
            os.rename(away, full)
        stop.wait(rnd.uniform(0, 0.002))


def check_swaps(ec, count):
    seen = collections.Counter()
    for i in range(count):
        form = FORMS[i % 3]
        if i % 48 < 3:
            for place in ("outside set", "outside out"):
                ec.fresh(place)
            make_set(ec, form, 300000)
            for name in ec.files("set"):
                shutil.copy2(ec.path("set", name), ec.path("outside set", name))
            for name in (".c", "a", "b", "a.001.ec"):
                for place in ("outside set", "outside out"):
                    ec.write(f"{place}/{name}", b"mine")
            before = {place: ec.state_of(place) for place in ("outside set", "outside out")}
            shutil.copytree(ec.path("set"), ec.path(f"kept {form}"), dirs_exist_ok=True)
        for name in ("set", "out"):
            if os.path.islink(ec.path(name)):
                ec.remove(name)
        ec.fresh("set", "away", "out")
        shutil.copytree(ec.path(f"kept {form}"), ec.path("set"), dirs_exist_ok=True)
        stop = multiprocessing.Event()
        swapper = multiprocessing.Process(target=swap, args=(ec.folder, stop))
        swapper.start()
        arguments = random.choice([("repair", "set"), ("extract", "set", "-o", "out", "--force")])
        for _ in range(2):
            status, _, err = ec(*arguments)
            seen[arguments[0], status] += 1
            check(status in (OK, FAILURE, LOST), f"{arguments}: {status} {err}")
        stop.set()
        swapper.join()
        for place, state in before.items():
            check(ec.state_of(place) == state, f"{arguments} wrote outside, run {i}: {err}")
    check(count < 30 or (all if count >= 100 else any)(seen[verb, OK] for verb in ("repair", "extract")), f"some runs end well: {seen}")
    print(f"swaps: {count} runs, {dict(seen)}")


class Fault(typing.NamedTuple):
    """One that a run is made to meet: the command in front of it, and what it finds in its environment."""
    what: str
    tracer: list
    environment: dict
    is_loader: bool = False  # a loader without memory may crash
    is_unsupported: bool = False
    leaves: bool = False  # its temporary files


def calls_that_fail(ec, arguments):
    """Each system call, by each error."""
    log = ec.path("log")
    subprocess.run(["strace", "-f", "-o", log, ec.program, *arguments], cwd=ec.folder, capture_output=True, check=True)
    with open(log, encoding="utf-8", errors="replace") as file:
        before, _, after = file.read().partition("fcntl(0, F_GETFD")
    loader, others = (collections.Counter(re.findall(r"^\d+ +([a-z]\w+)\(", text, re.MULTILINE)) for text in (before, after))
    for name, calls in (loader + others).items():
        for i in range(1, calls + 1 if name not in NO_FAULTS else 0):
            for error in [*ERRORS, UNSUPPORTED[name]] if name in UNSUPPORTED else ERRORS:
                tracer = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={i}"]
                yield Fault(f"{name} {i} fails by {error}", tracer, {}, i <= loader[name], error == UNSUPPORTED.get(name), name == "unlinkat")


def allocations_that_fail(ec, arguments, library):
    """Each allocation, alone and with all after it."""
    log = ec.path("log")
    subprocess.run([ec.program, *arguments], cwd=ec.folder, capture_output=True, check=True,
                   env={**os.environ, "LD_PRELOAD": library, "EC_ALLOCATIONS": log})
    with open(log, encoding="ascii") as file:
        count = int(file.read())
    for i in range(1, count + 1):
        for more in ("", "+"):
            yield Fault(f"allocation {i}{more} of {count} fails", [], {"LD_PRELOAD": library, "EC_FAILING_ALLOCATION": f"{i}{more}"})


def check_faults(ec, faults_of, count):
    arguments = ("repair", "--threads", "1", "set")
    for form in FORMS:
        whole = make_set(ec, form, 20000)
        ec.fresh("kept")
        shutil.copytree(ec.path("set"), ec.path("kept"), dirs_exist_ok=True)
        faults = list(faults_of(ec, arguments))
        if count:
            faults = random.sample(faults, min(len(faults), count // 3))
        seen = collections.Counter()
        for fault in faults:
            ec.fresh("set")
            shutil.copytree(ec.path("kept"), ec.path("set"), dirs_exist_ok=True)
            before = ec.state_of("set")
            done = subprocess.run([*fault.tracer, ec.program, *arguments], cwd=ec.folder, capture_output=True, check=False,
                                  env={**os.environ, **fault.environment})
            after = ec.state_of("set")
            what = f"{fault.what}, {form}: exit {done.returncode}: {done.stderr}"
            seen[done.returncode] += 1
            is_loader = fault.is_loader and done.returncode not in (OK, FAILURE)
            check(is_loader or done.returncode in (OK, FAILURE), what)
            check(is_loader or done.returncode == OK or done.stderr, f"{what}: it says why")
            check(done.returncode != OK or not fault.is_unsupported or ec("verify", "set")[0] == OK, what)
            left = {path for path in after if path.endswith(".tmp")}
            check(not left or fault.leaves, f"{what}: {left} is left")
            old = {path: state for path, state in after.items() if path not in left}
            if {p: s[:5] for p, s in old.items()} != {p: s[:5] for p, s in before.items()}:
                check(ec("verify", "set")[0] == OK, f"{what}: neither the old state nor the new one: {sorted(set(old) ^ set(before))}")
            untouched = {path for path, state in before.items() if state[0] in whole.values()}
            check(all(after.get(path) == before[path] for path in untouched), f"{what}: what is whole is touched")
            check(ec("repair", "set")[0] == OK and ec("verify", "set")[0] == OK, f"{what}: a second run")
            found = ec.contents("set")
            expected = set(whole) | (set() if form == "shards" else {"b.damaged"})
            check({n for n in found if not n.endswith(".tmp")} == expected, f"{what}: {sorted(found)}")
            check(whole.items() <= found.items(), f"{what}: what a second run gives")
        check(seen[FAILURE], f"no fault was met: {seen}")
        print(f"faults: {len(faults)} of repair, {form}, exits {dict(seen)}", flush=True)


def claiming(shard, size, name=b"abcdef"):
    """The shard with another length of the object, and of its one file, in its headers, and with another name as long."""
    length = size.to_bytes(8, "little")
    at = 64 + 16 * shard_reader.headers_of(shard)[0].n
    return shard_reader.resealed(shard, {48: length, at: length, at + 10: name})


def check_claims(ec):
    """What headers claim is no work, takes no room, leads nowhere, and does nothing to a terminal; two sets of one UUID are told apart."""
    for size, name, right, says in ((1 << 60, b"abcdef", LOST, "beyond repair"), (7, b"../def", FAILURE, ""), (7, b"a/cdef", FAILURE, ""),
                                    (7, b"ab\0def", FAILURE, ""), (7, b"\x1b[31ma", OK, "")):
        ec.code(b"content", "-k", "2", "-m", "1", name="abcdef")
        for shard in ec.files("set"):
            ec.write(f"set/{shard}", claiming(ec.read(f"set/{shard}"), size, name))
        for arguments in (["verify", "set"], ["repair", "set"], ["extract", "set", "-o", "-"], ["extract", "set", "-o", "out"]):
            said = ec.ends(right, *arguments, says=says, what=name, timeout=120)
            check("\x1b" not in said, "no escape sequence is printed")
        check(ec.files("out") == ({name.decode()} if right == OK else set()), f"{name} of {size} bytes: {ec.files('out')}")
    ec.code(b"content", "-k", "2", "-m", "1", name="abcdef")
    ec.fresh("twins")
    for name in ec.files("set"):
        ec.write(f"twins/{name}", claiming(ec.read(f"set/{name}"), 6))
    ids = re.findall(r"^  (\S+): abcdef", ec.ends(USAGE, "verify", "set", "twins"), re.MULTILINE)
    check(len(set(ids)) == 2 and ids[0][:36] == ids[1][:36], ids)
    check(all(ec("verify", "set", "twins", "--set", name)[0] == OK for name in ids), "each is chosen by its name")
    for i in (1, 2):
        for place in ("set", "twins"):
            ec.remove(f"{place}/abcdef.00{i}.ec")
    said = ec.ends(USAGE, "verify", "--json", "set", "twins", says="of no set there are enough shards: choose one by --set")
    names = re.findall(r"^  (\S+): ", said, re.MULTILINE)
    check(len(names) == 2, said)
    for name in names:
        status, out, _ = ec("verify", "--json", "set", "twins", "--set", name)
        check(status == LOST and json.loads(out)["lost_stripes"], out)


def check_errors(ec):
    """Faults of the host are errors that name file and cause."""
    limit = limited(resource.RLIMIT_NOFILE, 32)
    # Of as many bytes as a block and a stripe of 20 have, and others.
    sizes = [0, 1, 65519, 65520, 65521, 0, 1310399, 1310400, 1310401, *(random.randrange(3000) for _ in range(400))]
    ec.fill("many", {f"{i}/deep/{i}": random.randbytes(size) for i, size in enumerate(sizes)})
    before = ec.contents("many")
    flat = {os.path.basename(name): content for name, content in before.items()}
    for keep, names, right in (([], [f"many/{name}" for name in before], flat), (["--keep", "-r"], ["many"], before)):
        ec.fresh("set", "out")
        for arguments, places in ((["create", *keep, "-k", "20", "-m", "40", "-o", "set", *names], []), (["verify"], ["set", "many"]),
                                  (["extract", "-o", "out"], ["set", "many"])):
            ec.ends(OK, *arguments, *places[:1 + len(keep)], what="with 32 descriptors", preexec_fn=limit)
        check(ec.contents("out") == right, "400 files, 800 directories by 32 descriptors")
        ec.remove(f"set/{min(ec.files('set'))}", *(["many/7/deep/7"] if keep else []))
        ec.ends(OK, "repair", "many", "set", preexec_fn=limit)
        check(before.items() <= ec.contents("many").items(), "repair with 32 descriptors")
    ec.fresh("many")
    ec.ends(OK, "repair", "many", "set", preexec_fn=limit)
    check(ec.contents("many") == before, "800 directories made anew with 32 descriptors")

    more = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    ec.ends(OK, "verify", "set", "many", *(f"many/{i}" for i in range(100)), what="101 directories, 32 descriptors and more on demand",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, more)))

    ec.fresh("set", "out")
    for liar in ("/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"):
        ec.ends(USAGE, "create", liar, "-o", "set")
        ec.ends(USAGE, "create", "--keep", liar, "-o", "set")
    check(not ec.files("set"), "shards of files that lie about their length")
    ec.write("long", b"")
    with contextlib.suppress(OSError):  # a file system of shorter files
        os.truncate(ec.path("long"), 2**63 - 1)
        ec.ends(USAGE, "create", "long", "long", "-k", "2", "-m", "1", "-o", "set", says="more than 2^60 bytes")
    ec.remove("long")

    ec.code(b"content", "-k", "2", "-m", "1")
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        for command in ("verify set", "create object -o out", "create - --name object -o out"):
            ec.fresh("out")
            done = subprocess.run(["bash", "-c", f"{ec.program} {command} {closed}"], cwd=ec.folder, capture_output=True, check=False)
            fails = "1>" in closed or ("-" in command.split() and "0<" in closed)
            check(done.returncode == (FAILURE if fails else OK), f"{command} {closed}: {done}")

    # The kernel does not go on with reading a socket that has a timeout.
    ec.fresh("set")
    ours, its = socket.socketpair()
    its.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 100, 0))
    with subprocess.Popen([ec.program, "create", "-", "-o", "set"], cwd=ec.folder, stdin=its, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        tasks = pathlib.Path(f"/proc/{process.pid}/task")
        # Until it is in read(), which is call 0 on x86-64 and 63 on arm64, where that can be seen.
        end = time.monotonic() + 10
        with contextlib.suppress(OSError):
            while process.poll() is None and time.monotonic() < end and not any(
                    re.match("(0|63) 0x0 ", call.read_text()) for call in tasks.glob("*/syscall")):
                time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        its.close()
        ours.close()
        err = process.stderr.read()
    check(process.returncode == OK, f"stopped and continued: {err}")

    name = "ä" * 127 + "x"
    for keep in ([], ["--keep"]):
        ec.fresh("set", "out")
        ec.write(f"set/{name}" if keep else name, random.randbytes(100000))
        ec.right("create", *keep, "-k", "2", "-m", "2", "-o", "set", f"set/{name}" if keep else name)
        before = ec.contents("set")
        shard = sorted(n for n in before if n.endswith(".ec"))[0]
        os.chown(ec.path("set", shard), 1234, 1234) if os.geteuid() == 0 else None
        os.chmod(ec.path("set", shard), 0o604)
        for damaged in [shard] + [name] * len(keep):
            ec.patch(f"set/{damaged}", 5000, b"rust")
        ec.ends(OK, "repair", "set")
        check(before.items() <= ec.contents("set").items(), "a long name")
        st = os.stat(ec.path("set", shard))
        check(st.st_mode & 0o777 == 0o604 and st.st_uid == (1234 if os.geteuid() == 0 else st.st_uid), "owner and mode stay")
        ec.right("extract", "set", "-o", "out")
    ec.code(b"content", name=".bashrc")
    ec.ends(OK, "extract", "set", "-o", "out", says=".bashrc", what="a hidden file is said")
    os.symlink("set", ec.path("link"))
    ec.ends(FAILURE, "verify", "link", what="a link is followed with a slash alone")
    ec.ends(OK, "verify", "link/")


def check_bad_sectors(ec):
    ec.code(random.randbytes(100000), "-k", "2", "-m", "1")
    arguments = ["strace", "-f", "-P", ec.path("set/object.001.ec"), "-o", "/dev/null", "-e", "inject=pread64:error=EIO:when=1",
                 ec.program, "extract", "--threads", "1", "set", "-o", "out"]
    for more, right in (([], FAILURE), (["--bad-sectors"], OK)):
        done = subprocess.run(arguments + more, cwd=ec.folder, capture_output=True, check=False)
        check(done.returncode == right and (right == OK or b"object.001.ec cannot be read at byte" in done.stderr), f"{more}: {done}")
    check(ec.read("out/object") == ec.read("object"), "extracted around a bad sector")


def check_swapped_directories(ec):
    """A directory that somebody puts in the place of a damaged file while that is made anew stays, with its name."""
    for form, name, made in (("shards", "a.005.ec", 2), ("kept", "b", 3)):
        make_set(ec, form, 20000)
        tracer = ["strace", "-f", "-o", "/dev/null", "-e", "inject=renameat2:delay_enter=500000"]
        with subprocess.Popen([*tracer, ec.program, "repair", "set"], cwd=ec.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            while process.poll() is None and sum(n.endswith(".tmp") for n in ec.files("set")) < made:
                time.sleep(0.01)
            os.rename(ec.path("set", name), ec.path("away", name))
            ec.write(f"set/{name}/inside", b"mine")
            before = {n for n in ec.state_of("set") if not n.endswith(".tmp")}
            err = process.stderr.read().decode()
        check(process.returncode == FAILURE and f"set/{name} is another file" in err, f"{form}: {process.returncode} {err}")
        check(set(ec.state_of("set")) == before, f"{form}: {sorted(ec.state_of('set'))}")


def check_failing_undo(ec):
    """Where neither the last rename is possible nor the way back, no content has a temporary name alone."""
    whole = make_set(ec, "kept", 20000)
    ec.write("set/a", b"mine")
    before = ec.contents("set")
    # A shard and a are in place when b fails.
    tracer = ["strace", "-f", "-o", "/dev/null", "-e", "inject=renameat2:error=ENOSPC:when=3+", "-e", "inject=renameat:error=ENOSPC"]
    done = subprocess.run([*tracer, ec.program, "repair", "set"], cwd=ec.folder, capture_output=True, check=False)
    found = {name: content for name, content in ec.contents("set").items() if not name.endswith(".tmp")}
    check(done.returncode == FAILURE and b"set/b cannot be replaced" in done.stderr, done)
    check(found == before | {"a": whole["a"], "a.damaged": b"mine", "a.005.ec": whole["a.005.ec"]}, sorted(found))


def check_syncs(ec):
    ec.fill("set", {f"old/{i}": random.randbytes(100) for i in range(40)})
    ec.right("create", "--keep", "-r", "set", "-k", "20", "-m", "5")
    ec.remove("set/set.020.ec", "set/set.021.ec", "set/set.022.ec")
    os.rename(ec.path("set/old"), ec.path("set/new"))
    subprocess.run(["strace", "-f", "-o", ec.path("log"), "-e", "trace=fsync", ec.program, "repair", "-r", "set"], cwd=ec.folder, capture_output=True, check=True)
    syncs = ec.read("log").count(b"fsync(")
    check(len(ec.files("set/old")) == 40 and syncs <= 7, f"{syncs} syncs of three shards and three directories")


def main():
    given = given_options("allocator", swaps=30, faults=60, untraced=False)  # faults=0: all
    with in_folder(given.program) as ec:
        check_claims(ec)
        check_errors(ec)
        check_swaps(ec, given.swaps)
        if given.untraced:
            return
        check_faults(ec, functools.partial(allocations_that_fail, library=given.allocator), given.faults)
        if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
            print("system calls that fail: no strace here, or it may not trace")
            sys.exit(77)
        check_bad_sectors(ec)
        check_swapped_directories(ec)
        check_failing_undo(ec)
        check_syncs(ec)
        check_faults(ec, calls_that_fail, given.faults)


if __name__ == "__main__":
    main()
