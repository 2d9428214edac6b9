"""Runs a sub-command of ec_bench on few bytes, with whatever device there is, and checks exit status, report and
refusals.

ec_bench_test.py EC_BENCH SUBCOMMAND [MORE: for host the folder of the fault driver; for cpu and ceph a libisal.so, and
for ceph one that is right on spoilt chunks alone; for instructions the recorded report]
"""
import copy
import csv
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

BENCH, SUBCOMMAND, *MORE = sys.argv[1:]
SKIPPED = 77
HEADER = {"machine", "commit", "command", "date"}
HOST_FIGURES = {"source_gbps", "ceiling_gbps", "ratio_ceiling", "call_us", "p99_us", "cpu_s_per_gb"}
HOST_PACE = ["--rounds", "3", "--warm-ms", "1", "--link-bytes", "1M", "--sample-ms"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(*command, **environment):
    """Exit status, and standard output with standard error behind it."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def need(*mounts):
    """What must be possible for the rest of the test."""
    if run(*mounts, "true")[0] != 0:
        print(f"skipped: not allowed here: {mounts}")
        sys.exit(SKIPPED)


def value(text):
    """As a number where it is one; None for nothing."""
    try:
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        return text or None


def read_report(file):
    """Header, in which a name may stand for several lines, and rows."""
    with open(file, encoding="utf-8") as f:
        lines = f.read().splitlines()
    header = {}
    for line in lines:
        if line.startswith("# "):
            name, _, content = line[2:].partition(": ")
            header[name] = header.get(name, "") + content
    return header, [{key: value(each) for key, each in row.items()}
                    for row in csv.DictReader(line for line in lines if not line.startswith("#"))]


def measure(*options, status=0, says="", **environment):
    """Header and rows of the report of a run."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.csv")
        ended, text = run(BENCH, SUBCOMMAND, *options, "--csv", file, **environment)
        if ended == SKIPPED:
            print(text)
            sys.exit(SKIPPED)
        check(ended == status and says in text, f"{options}: exit status {ended}: {text}")
        if status != 0:
            return None
        header, rows = read_report(file)
    check(HEADER <= set(header) and all(header.values()), f"header: {header}")
    for row in rows:
        check(len(row) > 4 and None not in row and str(next(iter(row.values()))) in text, f"{row} is not printed too, or longer: {text}")
    return header, rows


def refuse(*options, says):
    """An old report stays, and no new one begins."""
    with tempfile.NamedTemporaryFile("w+") as old:
        old.write("old")
        old.flush()
        status, text = run(BENCH, SUBCOMMAND, *options, *([] if "--csv" in options else ["--csv", old.name]))
        old.seek(0)
        check(status == 2 and says in text and "# machine" not in text and old.read() == "old", f"{options}: {status} {text}")


def refuse_each(**options):
    """What is in no row of tests/project/bad_input.json, and what no option takes."""
    for option, content in [*options.items(), *dict.fromkeys(options, "").items(), ("csv", "a b"), ("csv", "")]:
        option = "--" + option.replace("_", "-")
        refuse(option, *content.split(" "), says=f"{option} {content.replace(' ', ',')}")


def lose_output(*options):
    """Output that nobody takes is an error."""
    for words in (options, ["--help"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([BENCH, SUBCOMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        check(done.returncode == 1 and "standard output cannot be written" in done.stderr, f"a full disk: {words}: {done}")


def test_ceph():
    isal = shutil.copy(MORE[0], "libcopied.so")
    ops = ["encode", "encode-chunks", "decode", "decode-one"]
    header, rows = measure("--ops", *ops, "--rounds", "3", "--sample-ms", "0", "--shapes", "2+1,4+2,32+8", "--sizes", "100,1000,4K",
                      "--isal", isal)
    check(len(rows) == len(ops) * 3 * 3 * 3, f"{len(rows)} rows")
    check({row["coder"] for row in rows} == {"cuda", "isa", f"isa:{isal}"}, "plugins")
    check(os.path.isfile(header["isal"]), f"the ISA-L of isa: {header}")
    for row in rows:
        check(row["call_us"] > 0 and row["ratio"] > 0 and row["ratio_peer"] > 0, f"not timed: {row}")
        check(row["chunk_bytes"] % 32 == 0 and row["k"] * row["chunk_bytes"] >= row["object_bytes"], f"chunk: {row}")
    # A plugin that does not reach it through its procedure linkage table is not believed to run it; ours is nobody's peer.
    for file, ends, says in ((header["isal"].replace("_isa", "_jerasure"), 1, "isa:libcopied.so runs its own ISA-L"),
                             (os.path.join(os.path.dirname(BENCH), "../lib/erasure-code/libec_cuda.so"), 2, "must not be ec_cuda's file")):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(file, os.path.join(folder, "libec_isa.so"))
            status, text = run(BENCH, "ceph", "--plugin", f"isa={folder}", "--isal", isal, "--sizes", "4K", "--rounds", "1")
            check(status == ends and says in text, f"{file} as isa: {status} {text}")
    os.mkdir("tmp")
    measure("--isal", shutil.copy(isal, "x" * 250), status=1, says="File name too long", TMPDIR=os.path.abspath("tmp"))
    check(not os.listdir("tmp"), f"left behind: {os.listdir('tmp')}")
    # The timed call alone is wrong.
    measure("--ops", "encode-chunks", "--sizes", "4K", "--rounds", "1", "--sample-ms", "0", "--isal", MORE[1], status=1,
            says="# WRONG BYTES: encode-chunks,")
    refuse("--plugin", "cuda=/a,isa,cuda=/b", says="cuda is there twice")
    refuse_each(plugin="x", isal=f"{isal} {isal}", shapes="x", sizes="x", ops="x", rounds="3 3", memory="x")
    refuse("--plugin", "clay", "--shapes", "4+2,200+50", says="--plugin clay")
    lose_output("--sizes", "4K", "--rounds", "1")


def test_cpu():
    # Every contestant is verified before it is timed, so one sample of each is enough.
    isal = shutil.copy(MORE[0], "libcopied.so")
    header, rows = measure("--sections", "hot", "decode", "--rounds", "1", "--sample-ms", "0", "--isal", isal, MALLOC_ARENA_MAX="1", LD_PRELOAD="")
    check("LD_PRELOAD= MALLOC_ARENA_MAX=1 ec_bench cpu" in header["command"], f"another allocator is not named: {header}")
    check(header["isal"] == os.path.realpath(MORE[0]), f"the ISA-L of isal: {header}")
    for level, text in ((2, header["second-level cache"]), (3, header["machine"])):
        file = f"/sys/devices/system/cpu/cpu0/cache/index{level}/size"
        kib = int(pathlib.Path(file).read_text()[:-2]) if os.path.exists(file) else 0
        check(f"{kib} KiB" in text or f"last cache {kib >> 10} MiB" in text, f"{kib} KiB of cache {level}: {text}")
    for row in rows:
        check(row["call_us"] > 0 and row["source_gbps"] > 0 and row["ratio_limit"] > 0, f"not timed: {row}")
        check((row["ratio_peer"] is None) == row["coder"].startswith("isal"), f"beside the peer: {row}")
    check({(row["k"], row["m"]) for row in rows} == {(4, 2), (8, 3), (8, 4), (10, 4), (16, 4), (20, 4), (32, 8), (64, 16)}, "shapes")
    refuse_each(coders="x", shapes="x", chunks="x", sections="x", techniques="x", isal="/nowhere", clock="wall,cpu", sample_ms="x")
    refuse("--isal", isal, os.path.abspath(isal), says="libcopied.so is there twice")
    refuse("--clock", "wall", "cpu", says="--clock wall,cpu")
    refuse("--techniques", "reed_sol_van", "--shapes", "4+2,64+16", says="--shapes 64+16")
    short = ("--sections", "hot", "--shapes", "4+2", "--rounds", "1")
    lose_output(*short)
    status, text = run(BENCH, "nonsense")
    check(status == 2 and "nonsense: must be one of ceph, cpu, " in text, f"a bad sub-command: {status} {text}")
    blank = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'echo model name: >cpuinfo; mount --bind cpuinfo /proc/cpuinfo && exec "$@"', "sh")
    need(*blank)
    status, text = run(*blank, BENCH, SUBCOMMAND, *short)
    check(status == 0 and "unknown CPU" in text, f"a CPU without a name: {status} {text}")


def longer(counted, recorded):
    """What needs more than is recorded: 5 %, by another compiler 25 %."""
    compilers, tables = zip(*((header["compiler"], {tuple(row[key] for key in ("coder", "op", "k", "m")): row for row in rows})
                              for header, rows in (counted, recorded)))
    tolerance = 1.05 if compilers[0] == compilers[1] else 1.25
    return [f"{name}: {row[figure]} {figure}, recorded are {tables[1][name][figure]}"
            for name, row in tables[0].items() if name in tables[1]
            for figure in ("instructions", "library_calls") if row[figure] > tolerance * tables[1][name][figure]]


def test_instructions():
    """Against what is recorded; and a call that became longer, or calls one more function, is found."""
    counted = measure()
    more = longer(counted, read_report(MORE[0]))
    for figure in ("instructions", "library_calls"):
        spoiled = copy.deepcopy(counted)
        row = next(row for row in spoiled[1] if row["coder"] == "x86-avx2" and row["op"] == "decode-miss")
        row[figure] = row[figure] * 100 // 106
        found = longer(counted, spoiled)
        check(len(found) == 1 and figure in found[0], f"a spoiled report: {found}")
    check(not more, "\n".join(more))


def test_files():
    header, rows = measure("--size", "3M", "--rounds", "1", "--folder", ".", "--beside", '#copy"=true\n :: cp object copied')
    check(rows[-1]["coder"] == '#copy"' and "cp object copied" in header["command"], f"{header} {rows}")
    check(len(rows) == 9 and all(row["gbps"] > 0 and row["cpu_seconds"] > 0 for row in rows), f"{rows}")
    refuse_each(beside="none", size="x", rounds="x", folder="a b")
    small = ("--size", "1M", "--rounds", "1", "--folder", ".")
    for command, says in (("echo why; false", "echo why; false: why"), *((f"kill -{name} $PPID", "interrupted") for name in ("TERM", "HUP", "QUIT"))):
        measure(*small, "--beside", f"wrong=true :: {command}", status=1, says=says)
    check(not os.listdir(), f"left behind: {os.listdir()}")
    # The file tool makes a shard or a file less or wrong, or sees nothing.
    os.mkdir("it's $HOME")
    bench, ec = shutil.copy(BENCH, "it's $HOME"), os.path.join(os.path.dirname(BENCH), "ec")
    for command, does in (("create object", "rm set/object.013.ec"), ("repair set", "rm set/object.012.ec"), ("create --keep", "rm kept/*.ec"),
                          ("verify set", "true"), ("verify kept", "true"), ("no command", "true")):
        with open("it's $HOME/ec", "w", opener=lambda *it: os.open(*it, 0o755), encoding="utf-8") as spoilt:
            spoilt.write(f'#!/bin/sh\n"{ec}" "$@"; end=$?; case "$*" in "{command}"*) {does} ;; *) exit $end ;; esac\n')
        status, text = run(os.path.abspath(bench), SUBCOMMAND, *small)
        check(("\ncoder" in text) == (command == "no command") != status, f"{command} .. and {does}: {status} {text}")
    on_disk = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=$0M ec_bench . && cd "$PWD" && exec "$@"']
    need(*on_disk, "40")
    for disk, ends, says in ((40, 0, "ec-keep-repair,"), (20, 1, "No space left on device")):
        status, text = run(*on_disk, str(disk), BENCH, SUBCOMMAND, "--size", "8M", "--rounds", "1", "--folder", ".")
        check(status == ends and says in text, f"8 MiB on a disk of {disk}: {status} {text}")


def test_gpu():
    names = "table,bits,paired,generated"
    _, rows = measure("--total", "1M", "--runs", "3", "--shapes", "8+3,10+4,64+16", "--chunks", "64K", "--kernels", names)
    check(all(row["moved_gbps"] > 0 and row["ratio_copy"] > 0 for row in rows), "rows")
    check({row["coder"] for row in rows} == set(names.split(",")), "kernels")
    check({row["lost"] for row in rows if row["op"] == "decode"} == {"data", "mixed"}, "what was lost")
    # Encode of two lengths, and two decodes; in pairs where what is lost comes in them.
    check(sum(row["coder"] == "table" for row in rows) == 3 * (2 + 2), "cases")
    check(sum(row["coder"] == "paired" for row in rows) == 2 + 2, "cases in pairs")
    refuse_each(kernels="none", shapes="4x2", total="x", runs="x")
    measure("--total", "1M", "--runs", "3", "--shapes", "4+2", "--kernels", "paired", status=1, says="nothing was measured")
    lose_output("--total", "1M", "--runs", "3", "--shapes", "4+2")


def check_host(rows, gpus=1, processes=1):
    for row in rows:
        check(row["gpus"] == gpus and row["processes"] == processes, f"{row}")
        check(all(row[figure] > 0 for figure in HOST_FIGURES), f"a figure is missing: {row}")
        gbps = 1e-3 * processes * row["threads"] * row["k"] * row["chunk_bytes"] / row["call_us"]
        check(abs(gbps / row["source_gbps"] - 1) < 1e-2, f"GB/s are not those of the calls: {row}")
        # x86 gives way to isal where the CPU lacks the instructions.
        allowed = {"auto": ("cuda", "x86", "isal"), "x86": ("x86", "isal")}.get(row["coder"], (row["coder"],))
        check(row["chosen"] in allowed, f"another back end ran: {row}")
    names = [tuple(row[key] for key in ("op", "k", "m", "chunk_bytes", "residence", "threads", "coder")) for row in rows]
    check(len(names) == len(set(names)), "a row is there twice")


def test_host():
    os.environ["EC_CUDA_THRESHOLD"] = "1G"  # `auto` by a rule: what it learns of the emulated device is left to chance
    small = [*HOST_PACE, "0", "--shapes", "4+2"]
    header, rows = measure(*small, "--residences", "pageable,pinned", "--ops", "encode,decode", "--chunks", "4K,16K",
                           "--threads", "1,2")
    check_host(rows)
    # Two sizes, operations, residences and numbers of threads, four back ends.
    check(len(rows) == 2 * 2 * 2 * 2 * 4, f"{len(rows)} rows")
    faults = {"LD_LIBRARY_PATH": f"{MORE[0]}:{os.environ['LD_LIBRARY_PATH']}"}
    check_processes(faults)
    if "emulated" in header["gpu"]:
        check_two_devices(small, faults)

    pinned = [*small, "--chunks", "4K", "--threads", "1,2"]
    # More than one for each thread do not fit.
    measure(*pinned, "--largest-bytes", "1")
    measure(*pinned, status=1, says="63", EC_CUDA_DEVICES="63")
    refuse_each(residences="none", backends="gpu", chunks="100", ops="update", threads="0", warm_ms="-1", processes="0", sample_ms="x")
    status, text = run(BENCH, SUBCOMMAND, *pinned, "--csv", "/nowhere/x")
    check(status == 2 and "--csv /nowhere/x" in text, f"a file that cannot be: {status} {text}")
    lose_output(*pinned, "--processes", "2")
    limited = ("prlimit", "--as=4000000000", "timeout", "60", BENCH)
    if run(*limited, "--version")[0] == 0:  # a sanitizer's build takes terabytes of addresses
        status, text = run(*limited, SUBCOMMAND, *small, "--chunks", "4K", "--threads", "1024")
        check(status == 1 and " of 1024 threads could be made: " in text, f"no memory for threads: {status} {text}")


def check_two_devices(small, faults):
    """The ceiling is that of both links. Here every copy to a device takes the same time. Chunks so long are coded by
    generated kernels."""
    ceiling = {}
    for devices in ("0", "0,1"):
        header, rows = measure(*small, "--chunks", "4K,1M", "--threads", "2", "--backends",
                               "cuda,isal", EC_EMULATED_DEVICES="2", EC_CUDA_DEVICES=devices,
                               EC_FAULTS="cuMemcpyHtoDAsync:every=1:slow=300ms", **faults)
        check_host(rows, gpus=len(devices.split(",")))
        check(f"EC_CUDA_DEVICES={devices} " in header["command"].split("ec_bench host ")[0], header["command"])
        ceiling[devices] = rows[0]["ceiling_gbps"]
    ratio = ceiling["0,1"] / ceiling["0"]
    check(1.6 < ratio < 2.1, f"two links carry {ratio} times what one does")
    # A device that fails leaves its work to the other, which is not what was to be measured.
    measure(*small, "--chunks", "4K", "--threads", "2", "--backends", "cuda,isal", status=1,
            says="a device failed while encode 4+2", EC_EMULATED_DEVICES="2", EC_CUDA_DEVICES="0,1", EC_CUDA_RETRY_S="0",
            EC_FAULTS="cuLaunchKernel:nth=20:CUDA_ERROR_NOT_INITIALIZED", **faults)


def check_processes(faults):
    """Many processes measure the same; one that fails ends them all."""
    asked = ["--shapes", "8+3", "--chunks", "4K,64K", "--threads", "2", "--backends", "cuda,auto,x86", "--processes", "1,3", *HOST_PACE]
    _, rows = measure(*asked, "20")
    check(len(rows) == 12, f"{len(rows)} rows of processes")
    check_host(rows[:6])
    check_host(rows[6:], processes=3)
    asked[asked.index("1,3")] = "3"
    measure(*asked, "0", status=1, says="a device failed while encode 8+3", EC_CUDA_RETRY_S="0",
            EC_FAULTS="cuLaunchKernel:nth=30:CUDA_ERROR_NOT_INITIALIZED", **faults)
    asked[asked.index("--rounds") + 1] = "1000"
    with subprocess.Popen([BENCH, SUBCOMMAND, *asked, "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as bench:
        while not bench.stdout.readline().startswith("# gpu"):
            check(bench.poll() is None, "nothing was measured")
        with open(f"/proc/{bench.pid}/task/{bench.pid}/children", encoding="utf-8") as children:
            os.kill(int(children.read().split()[-1]), signal.SIGKILL)
        text = bench.communicate()[1]
    check(bench.returncode == 1 and "a process ended too early" in text, f"a process that is killed: {text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        {"ceph": test_ceph, "cpu": test_cpu, "instructions": test_instructions, "files": test_files, "gpu": test_gpu,
         "host": test_host}[SUBCOMMAND]()


if __name__ == "__main__":
    main()
