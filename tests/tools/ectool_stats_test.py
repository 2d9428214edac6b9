"""Reads the stats of running processes with `ectool stats`, as an operator does.

ectool_stats_test.py ECTOOL STATS_CHILD
"""
import ctypes
import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from stand_in import Child, check

KIB = 1024


class Ectool:
    def __init__(self, program):
        self.program = program

    def __call__(self, *arguments, **options):
        done = subprocess.run([self.program, "stats", *map(str, arguments)], capture_output=True, text=True,
                              check=False, **options)
        return done.returncode, done.stdout, done.stderr

    def right(self, *arguments):
        status, out, err = self(*arguments)
        check(status == 0 and err == "", f"{arguments}: exit {status}: {err}")
        return out

    def wrong(self, *arguments, **options):
        status, out, err = self(*arguments, **options)
        check(status != 0 and out == "", f"{arguments}: exit {status}: {out}")
        return status, err

    def process(self, pid):
        found = json.loads(self.right(pid, "--json"))["processes"]
        check(len(found) == 1, found)
        # Those of a device are there whether or not it was used.
        found[0]["rows"] = [row for row in found[0]["rows"] if row["jobs"] or any(row["fallbacks"].values())]
        return found[0]


def check_known_work(ectool, child):
    for work in (("encode", 1000, 4 * KIB), ("decode", 10, 16 * KIB), ("update", 5, 1), ("encode", 3, 64 * KIB)):
        child.tell(*work)
    found = ectool.process(child.pid)
    check((found["pid"], found["program"], found["version"]) == (child.pid, "stats_child", found["version"]), found)
    rows = {row["operation"]: row for row in found["rows"] if row["backend"] == "isal"}
    check(len(rows) == 3 and len(found["rows"]) == 3, found["rows"])
    counted = {operation: (row["jobs"], row["source_bytes"]) for operation, row in rows.items()}
    check(counted == {"encode": (1003, 4 * (1000 * 4 + 3 * 64) * KIB), "decode": (10, 10 * 4 * 16 * KIB),
                      "update": (5, 5)}, counted)
    for row in rows.values():
        check(row["fallbacks"] == {"unsupported": 0, "busy": 0, "fault": 0, "hung": 0}, row)
    # One thread: 1015 small jobs, the first one and one in 61 after it; 3 of 256 KiB, all of them.
    timed = {size: sum(row["timed"][size]["jobs"] for row in rows.values()) for size in ("small", "large")}
    check(timed == {"small": 17, "large": 3}, timed)
    for row in rows.values():
        for durations in row["timed"].values():
            check(sum(durations["at_most_us"].values()) == durations["jobs"], durations)
            check((durations["nanoseconds"] > 0) == (durations["jobs"] > 0), durations)
    check(found["decode_plans"] == {"found": 9, "solved": 1}, found["decode_plans"])
    check(found["device"]["state"] == "none" and found["arena"]["bytes"] == 0, found)
    # It goes on counting.
    child.tell("update", 2, 1)
    check({row["operation"]: row["jobs"] for row in ectool.process(child.pid)["rows"]}["update"] == 7, "two more")


def check_list(ectool, child):
    listed = ectool.right()
    check(re.search(rf"^ *{child.pid} +{os.geteuid()} stats_child +\S+ +1020 +0.018 +0  none$", listed, re.MULTILINE), listed)
    alone = json.loads(ectool.right(child.pid))["processes"]
    check(len(alone) == 1 and alone[0] in json.loads(ectool.right("--json"))["processes"], alone)


def check_refusals(ectool, child):
    ended = subprocess.Popen(["true"])
    ended.wait()
    check(ectool.wrong(ended.pid) == (1, f"ectool: there is no process {ended.pid}\n"), "ended")
    me = f"ectool: process {os.getpid()} (python3"
    own = f", user {os.geteuid()})"
    status, err = ectool.wrong(os.getpid())
    check(status == 1 and err.startswith(me) and err.endswith(f"{own} has no stats: it has made no codec of ec-cuda yet\n"),
          err)
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # TMPDIR may be for root alone
            os.chmod(folder, 0o755)
            copy = shutil.copy(ectool.program, folder)
            os.chmod(copy, 0o755)
            other = Ectool(copy)
            status, err = other.wrong(child.pid, user=65534)
            check((status, err) == (1, f"ectool: process {child.pid} (stats_child, user 0) is not this user's: its stats are "
                                       "for its own user and for root\n"), err)
            check(str(child.pid) not in other(user=65534)[1], "listed to another user")
    else:
        status, err = ectool.wrong(1)
        check(status == 1 and err.endswith("is not this user's: its stats are for its own user and for root\n"), err)


def check_prometheus(ectool, child):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ec_cuda.prom")
        for _ in range(2):  # a new file, and in the place of one
            check(ectool.right("--prometheus", "--output", path) == "", "into the file only")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        check(os.listdir(folder) == ["ec_cuda.prom"] and os.stat(path).st_mode & 0o777 == 0o644, "whole and readable")
        os.mkfifo(f"{folder}/fifo")
        os.symlink(path, f"{folder}/link")
        for place in ("", folder, f"{folder}/fifo", f"{folder}/link", "/dev/null"):
            check(ectool.wrong("--prometheus", "--output", place) ==
                  (2, f"ectool: stats: --output '{place}' must be a regular file, or a new one\n"), place)
        check(ectool.wrong("--prometheus", "--output", f"{path}/a") == (1, f"ectool: {path}/a cannot be written: Not a directory\n"),
              "a directory")
    sample = f'ec_cuda_jobs_total{{process="stats_child",pid="{child.pid}",uid="{os.geteuid()}",backend="isal",operation="encode"}} 1003\n'
    check(sample in text, text)


def check_names(program, ectool):
    """Of a Ceph daemon by its arguments; and whatever a process calls itself."""
    with tempfile.TemporaryDirectory() as folder:
        for called, arguments, name in (
                ("ceph-osd", ["-f", "--cluster", "ceph", "--id", "3"], "osd.3"), ("ceph-mon", ["-i", "a"], "mon.a"),
                ("ceph-osd", ["--id"], "ceph-osd"), ("ceph-osd", ["-i", "\x1b[31m\n"], "osd.?[31m?"),
                ("ceph-osd", ["-i", "\udcff\"\\"], 'osd.?"\\'), ("x\udcff\x1b[31m", ["-i", "3"], "x??[31m")):
            path = os.path.join(folder, called)
            if not os.path.lexists(path):
                os.symlink(os.path.abspath(program), path)
            with Child(path, *arguments) as child:
                child.tell("encode", 1, 64)
                check(ectool.process(child.pid)["name"] == name, f"{arguments} {ectool.process(child.pid)['name']}")
                quoted = name.replace("\\", "\\\\").replace('"', '\\"')
                check(f'ec_cuda_info{{process="{quoted}",pid="{child.pid}",uid="{os.geteuid()}",' in ectool.right("--prometheus"), quoted)


SHRINK_GROW_SEAL, ADD_SEALS = 0x1 | 0x2 | 0x4, 1033


def region(content, seals=SHRINK_GROW_SEAL, name="ec_cuda_stats"):
    """A region of this process, that another version, or nobody of ours, would have made."""
    file = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.write(file, content)
    fcntl.fcntl(file, ADD_SEALS, seals)
    return file


def check_other_regions(ectool, program):
    def header(magic=b"ec_stats", layout=9, size=0, version=b"9.9\x1b[31m"):
        return struct.pack("8sIIqQ16s", magic, layout, size, os.getpid(), 0, version)

    def answer(content, **options):
        file = region(content, **options)
        status, err = ectool.wrong(os.getpid())
        check(status == 1 and ectool()[0] == 0, "the list leaves it out")
        os.close(file)
        return re.sub(rf"^ectool: process {os.getpid()} \(\S+, user \d+\)|\n$", "", err)

    with Child(program) as child:
        child.tell("encode", 1, 64)
        page = child.page()
    unknown = ": its stats are not in a form that this ectool knows"
    other = answer(header(layout=99))
    check(re.fullmatch(r": they are of ec-cuda 9\.9\?\[31m \(layout 99, 0 bytes\), and this is the ectool of \S+ \(layout \d+, "
                       rf"{len(page)} bytes\): use the one that came with the plugin", other), other)
    check("17 bytes), and this is" in answer(header(size=17)), "another size")
    for content in (header(magic=b"ec_stat?"), b"ec_stats", b"", header(size=len(page))):
        check(answer(content) == unknown, content)
    check(answer(page, seals=0) == unknown, "who made it could make it shorter while it is read")
    # One page in many descriptors is one page; and of many pages a few are enough.
    file = region(page)
    copies = [os.dup(file) for _ in range(100)]
    check(len(json.loads(ectool.right(os.getpid(), "--json"))["processes"]) == 1, "copies of a descriptor")
    copies += [region(page) for _ in range(100)]
    check(len(json.loads(ectool.right(os.getpid(), "--json"))["processes"]) == 8, "many pages")
    for each in [file, *copies]:
        os.close(each)
    if os.geteuid() == 0:
        file = region(page)
        os.fchown(file, 12345, 12345)
        check(ectool.wrong(os.getpid())[1].endswith(unknown + "\n"), "of a user who has nothing to do with the process")
        os.close(file)


def check_nothing_is_opened(ectool):
    """What has the name of a region and is no regular file is not opened, which could do something or take for ever."""
    path = "/memfd:ec_cuda_stats (deleted)"
    if os.geteuid() != 0 or os.path.lexists(path):
        print("skipped: only root makes a file of that name: what is opened is not tested")
        sys.exit(77)
    libc, in_open = ctypes.CDLL(None), 0x20
    os.mkfifo(path)
    try:
        held = os.open(path, os.O_PATH)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        check(libc.inotify_add_watch(watch, path.encode(), in_open) > 0, "inotify")
        status, err = ectool.wrong(os.getpid(), timeout=120)
        check(status == 1 and err.endswith(": its stats are not in a form that this ectool knows\n"), err)
        try:
            check(not os.read(watch, 4096), "it was opened")
        except BlockingIOError:
            pass
        os.close(watch)
        os.close(held)
    finally:
        os.unlink(path)


def main():
    ectool, program = Ectool(sys.argv[1]), sys.argv[2]
    with Child(program) as child:
        check_known_work(ectool, child)
        check_list(ectool, child)
        check_prometheus(ectool, child)
        check_refusals(ectool, child)
    with open("/dev/full", "wb") as full:
        for arguments in (["stats", "--prometheus"], ["doctor", "--json"], ["doctor", "--profile", "k=4 m=2"], ["--version"]):
            check(subprocess.run([sys.argv[1], *arguments], stdout=full, check=False).returncode == 1, f"{arguments}: a full disk")
    check(ectool.wrong(child.pid) == (1, f"ectool: there is no process {child.pid}\n"), "nothing is left of it")
    check_names(program, ectool)
    check_other_regions(ectool, program)
    check_nothing_is_opened(ectool)


if __name__ == "__main__":
    main()
