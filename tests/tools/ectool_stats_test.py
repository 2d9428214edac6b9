"""Reads the counters of running processes with `ectool stats`, as an operator does.

ectool_stats_test.py ECTOOL STATS_CHILD
"""
import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

KIB = 1024


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


class Child:
    """A process that codes what it is told."""

    def __init__(self, program, backend="isal", **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EC_CUDA_")}
        self.process = subprocess.Popen([program, backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**environment, **variables})
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


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
        return found[0]


def check_known_work(ectool, child):
    for work in (("encode", 1000, 4 * KIB), ("decode", 10, 16 * KIB), ("update", 5, 1), ("encode", 3, 64 * KIB)):
        check(child.tell(*work) == "ok", work)
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
            check(sum(bucket["jobs"] for bucket in durations["buckets"]) == durations["jobs"], durations)
            check((durations["nanoseconds"] > 0) == (durations["jobs"] > 0), durations)
    check(found["decode_plans"] == {"found": 9, "solved": 1}, found["decode_plans"])
    check(found["device"]["state"] == "none" and found["arena"]["bytes"] == 0, found)
    # It goes on counting.
    child.tell("update", 2, 1)
    check({row["operation"]: row["jobs"] for row in ectool.process(child.pid)["rows"]}["update"] == 7, "two more")


def check_words(ectool, child):
    table = ectool.right(child.pid)
    check(table.startswith(f"process {child.pid} (stats_child), ec-cuda "), table)
    check(re.search(r"^isal +encode +1003 +0.017 +0 +0 +0 +0$", table, re.MULTILINE), table)
    check("decode plans: 9 found, 1 solved\n" in table and "GPU: none; 0 jobs in hand" in table, table)
    listed = ectool.right()
    check(re.search(rf"^ *{child.pid} stats_child +\S+ +1020 +0.018 +0  none$", listed, re.MULTILINE), listed)
    check(str(child.pid) in ectool.right("--json"), "all as JSON")


def check_fork(ectool, child):
    grandchild = int(child.tell("fork"))
    rows = ectool.process(grandchild)["rows"]
    check([(row["operation"], row["jobs"]) for row in rows] == [("encode", 7)], rows)
    check({row["operation"]: row["jobs"] for row in ectool.process(child.pid)["rows"]}["encode"] == 1003, "the parent")


def check_refusals(ectool, child):
    number = "must be a whole number from 1 to 4194304"
    for wrong in ("12x", "0", "-1", "4194305", ""):
        if wrong != "-1":  # an option to the command line
            check(ectool.wrong(wrong) == (2, f"ectool: stats: PID={wrong} {number}\n"), ectool.wrong(wrong))
    check(ectool.wrong("1", "2") == (2, "ectool: stats takes one PID or none, and no 2\n"), "two")
    check(ectool.wrong("1", "--show") == (2, "ectool: --show and --output go with calibrate only\n"), "--show")
    check(subprocess.run([ectool.program, "explain", "--json"], capture_output=True, text=True,
                         check=False).stderr == "ectool: --json goes with stats only\n", "--json")
    ended = subprocess.Popen(["true"])
    ended.wait()
    check(ectool.wrong(ended.pid) == (1, f"ectool: there is no process {ended.pid}\n"), "ended")
    me = f"ectool: process {os.getpid()} (python3"
    status, err = ectool.wrong(os.getpid())
    check(status == 1 and err.startswith(me) and err.endswith(") has no counters: it has made no codec of ec-cuda yet\n"),
          err)
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            copy = os.path.join(folder, "ectool")
            with open(ectool.program, "rb") as source, open(copy, "wb") as target:
                target.write(source.read())
            os.chmod(copy, 0o755)
            other = Ectool(copy)
            status, err = other.wrong(child.pid, user=65534)
            check((status, err) == (1, f"ectool: process {child.pid} (stats_child) is not this user's: its counters are "
                                       "for its own user and for root\n"), err)
            check(str(child.pid) not in other(user=65534)[1], "listed to another user")
    else:
        status, err = ectool.wrong(1)
        check(status == 1 and err.endswith("is not this user's: its counters are for its own user and for root\n"), err)


def check_other_layouts(ectool):
    """This process has a region that another version, or nobody, would have made."""
    def region(content):
        file = os.memfd_create("ec_cuda_stats")
        os.write(file, content)
        return file

    def header(magic=b"ec_stats", layout=3, size=0, version=b"9.9\x1b[31m"):
        return struct.pack("8sIIqQ16s", magic, layout, size, os.getpid(), 0, version)

    for content, what in ((header(layout=99), r" has the counters of ec-cuda 9\.9\?\[31m \(layout 99, 0 bytes\), and this "
                                              r"is the ectool of \S+ \(layout \d+, \d+ bytes\): use the one that came "
                                              "with the plugin"),
                          (header(size=17), r" has the counters of ec-cuda 9\.9.* 17 bytes.*"),
                          (header(magic=b"ec_stat?"), ": its counters are not in a form that this ectool knows"),
                          (b"ec_stats", ": its counters are not in a form that this ectool knows"),
                          (b"", ": its counters are not in a form that this ectool knows")):
        file = region(content)
        status, err = ectool.wrong(os.getpid())
        check(status == 1 and re.fullmatch(rf"ectool: process {os.getpid()} \(\S+\){what}\n", err), err)
        check(ectool(os.getpid())[0] == 1 and ectool()[0] == 0, "the list leaves it out")
        os.close(file)
    size = int(re.search(r"and this .*layout \d+, (\d+) bytes",
                         (lambda file: (ectool.wrong(os.getpid())[1], os.close(file)))(region(header(layout=99)))[0])
               .group(1))
    file = region(header(size=size))
    check(ectool.wrong(os.getpid())[1].endswith(": its counters are cut short\n"), "cut short")
    os.close(file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ectool")
    parser.add_argument("child")
    options = parser.parse_args()
    ectool = Ectool(options.ectool)
    with Child(options.child) as child:
        check_known_work(ectool, child)
        check_words(ectool, child)
        check_fork(ectool, child)
        check_refusals(ectool, child)
    check(ectool.wrong(child.pid) == (1, f"ectool: there is no process {child.pid}\n"), "nothing is left of it")
    check_other_layouts(ectool)


if __name__ == "__main__":
    main()
