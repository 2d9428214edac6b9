"""Runs ectool as an operator does: calibrate, show, explain, and every kind of bad input.

ectool_test.py ECTOOL [--emulated DIRECTORY], where DIRECTORY holds an emulated CUDA driver.
"""
import argparse
import copy
import json
import os
import re
import stat
import subprocess
import sys
import tempfile

from reproducer import RESIDENCES, reproducer

RATES = {"call_us", "stripe_us", "read_us_per_mb", "written_us_per_mb", "product_us_per_mb"}
CALL = ["k=8", "m=3", "bytes=1M"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


class Ectool:
    def __init__(self, program, emulated, home):
        self.program = program
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("EC_CUDA_")}
        self.environment["XDG_CONFIG_HOME"] = home
        if emulated:
            self.environment["LD_LIBRARY_PATH"] = emulated

    def __call__(self, *arguments, **variables):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False,
                              env={**self.environment, **variables})
        return done.returncode, done.stdout, done.stderr

    def right(self, *arguments, **variables):
        status, out, err = self(*arguments, **variables)
        check(status == 0, f"{arguments} {variables}: exit {status}: {err}")
        return out


def check_bad_input(ectool):
    number = "must be a whole number from"
    wrong = [
        ([], "a command is missing: calibrate, explain, replay or stats; see --help"),
        (["frob"], "unknown command frob: calibrate, explain, replay or stats"),
        (["--frob"], "unrecognised option '--frob'"),
        (["calibrate", "k=8"], "calibrate takes no k=8"),
        (["calibrate", "--show", "--output", "x"], "--show measures nothing, so there is nothing for --output"),
        (["calibrate", "--output"], "the required argument for option '--output' is missing"),
        (["explain", "--show"], "--show goes with calibrate only"),
        (["explain"], "explain: k= is missing"),
        (["explain", "k=8", "m=3"], "explain: bytes= is missing"),
        (["explain", "k"], "explain: k is not name=value; known are k, m, bytes, residence, op, erasures, stripes, jobs, "
                           "backend"),
        (["explain", "n=1"], "explain: n=1 is unknown; known are k, m, bytes, residence, op, erasures, stripes, jobs, "
                             "backend"),
        (["explain", "k, m=1"], "explain: k, m=1 is unknown; known are k, m, bytes, residence, op, erasures, stripes, "
                                "jobs, backend"),
        (["explain", *CALL, "k=9"], "explain: k is given twice"),
        (["explain", "k=1", "m=3", "bytes=1"], f"explain: k=1 {number} 2 to 254"),
        (["explain", "k=8x", "m=3", "bytes=1"], f"explain: k=8x {number} 2 to 254"),
        (["explain", "k=8", "m=248", "bytes=1"], f"explain: m=248 {number} 1 to 247"),
        (["explain", "k=8", "m=3", "bytes=0"], f"explain: bytes=0 {number} 1 to 4294967296 bytes; the suffixes K, M and "
                                               "G multiply by powers of 1024"),
        (["explain", *CALL, "residence=gpu"], "explain: residence=gpu must be one of pageable, pinned, device"),
        (["explain", *CALL, "op=code"], "explain: op=code must be one of encode, decode, update"),
        (["explain", *CALL, "erasures=1"], "explain: erasures=1 goes with op=decode only"),
        (["explain", *CALL, "op=decode", "erasures=4"], f"explain: erasures=4 {number} 1 to 3"),
        (["explain", *CALL, "stripes=0"], f"explain: stripes=0 {number} 1 to 1000000"),
        (["explain", *CALL, "jobs=-1"], f"explain: jobs=-1 {number} 0 to 1000"),
        (["explain", *CALL, "backend=cuda"], "explain: backend=cuda must be one of auto, cpu, gpu, x86, isal, reference"),
    ]
    for arguments, text in wrong:
        status, out, err = ectool(*arguments)
        check((status, out, err) == (2, "", f"ectool: {text}\n"), f"{arguments}: {status} {out!r} {err!r}")
    status, _, err = ectool("calibrate", "--show", EC_CUDA_CALIBRATION="x")
    check((status, err) == (1, "ectool: EC_CUDA_CALIBRATION=x must be an absolute path or none\n"), err)
    status, _, err = ectool("calibrate", "--show", EC_CUDA_CALIBRATE="x")
    check(status == 1 and "unknown variable EC_CUDA_CALIBRATE; known are" in err, err)


def lines(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def check_explain(ectool, there):
    def runs(*arguments, **variables):
        said = lines(ectool.right("explain", *arguments, EC_CUDA_CALIBRATION="none", **variables))
        check(said["costs"] == "built in", said)
        check(said["GPU"] == ("emulated device" if there else said["GPU"]), said)
        check(there or said["GPU"].startswith("none ("), said)
        return said["runs"]

    cpu = runs(*CALL).split(";")[0]
    check(cpu in ("x86", "isal"), cpu)
    check(runs(*CALL) == f"{cpu}; chunks are pageable, and there are no costs for those on the device", "pageable")
    large = runs(*CALL, "residence=pinned")
    check(large.startswith("cuda; 201." if there else f"{cpu}; there is no GPU. With one it would be cuda: 201."), large)
    for more in (["bytes=4K"], ["bytes=1M", "jobs=16"]):
        said = runs("k=8", "m=3", "residence=pinned", *more)
        check(said.startswith(f"{cpu}; ") and "are predicted" in said, said)
    many = runs("k=8", "m=3", "bytes=4K", "residence=pinned", "stripes=1000", "op=decode", "erasures=3")
    check("cuda" in many, many)
    on_device = runs(*CALL, "residence=device", "backend=cpu")
    check(on_device == ("cuda; chunks lie on the device, which only the device can address" if there else
                        "nothing; chunks lie on a device, and there is none"), on_device)
    check(runs(*CALL, "residence=pinned", "backend=cpu") == f"{cpu}; backend=cpu says so", "cpu")
    check(runs(*CALL, "residence=pinned", "backend=isal") == "isal; backend=isal says so", "isal")
    check(runs(*CALL, EC_CUDA_BACKEND="reference") == "reference; backend=reference says so", "the node's choice")
    threshold = runs(*CALL, "residence=pinned", EC_CUDA_THRESHOLD="9M")
    check(threshold == f"{cpu}; EC_CUDA_THRESHOLD=9437184 decides, and all sources together have 8388608 bytes",
          threshold)
    update = ectool.right("explain", *CALL, "op=update", "residence=pinned", EC_CUDA_CALIBRATION="none")
    check(update.startswith("update 8+3, chunks of 1048576 bytes, pinned, one stripe in a call, 0 other calls"), update)
    queue = ectool.right("explain", *CALL, "jobs=1", EC_CUDA_CALIBRATION="none")
    check("one stripe in a call, 1 other call on the device\n" in queue, queue)


def check_calibrate(ectool, directory, there):
    check(ectool.right("calibrate", "--show").startswith("costs: built in\n"), "nothing is calibrated")
    path = os.path.join(directory, "ec_cuda", "calibration.json")
    said = ectool.right("calibrate", "--output", path)
    check(said.endswith(f"written to {path}; processes read it when they start\n"), said)
    check(os.listdir(os.path.dirname(path)) == ["calibration.json"], "something was left behind")
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o644, "mode")
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    check(set(found) == {"format", "cpu", "date", "cpu_costs", "device"}, found)
    rates = list(found["cpu_costs"])
    check((found["device"] is not None) == there, found["device"])
    if there:
        check(found["device"]["gpu"] == "emulated device", found["device"])
        rates += [found["device"][r] for r in ("pageable", "pinned")]
    for each in rates:
        check(RATES <= set(each) and all(each[name] >= 0 for name in RATES), each)
        check(any(each[name] > 0 for name in RATES - {"call_us", "stripe_us"}), f"bytes cost nothing: {each}")

    # It is where it is looked for, and is used.
    check(ectool.right("calibrate", "--show").startswith(f"costs: {path}\n"), "the file is not found")
    check(lines(ectool.right("explain", *CALL, "residence=pinned"))["costs"] == path, "the file is not used")
    check(ectool.right("calibrate", "--show", EC_CUDA_CALIBRATION="none").startswith("costs: built in\n"), "none")

    if there:
        check_pageable_costs(ectool, path, found)

    # A bad one is named in a line, and costs are the built-in ones.
    found["cpu"] = "another"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)
    shown = ectool.right("calibrate", "--show")
    refused = "is not used, costs are the built-in ones: it was measured on another CPU than this machine's"
    check(shown.startswith(f"ec_cuda: {path} {refused}\ncosts: built in\n"), shown)
    elsewhere = ectool.right("calibrate", "--show", EC_CUDA_CALIBRATION=os.path.join(directory, "none.json"))
    check("none.json is not used, costs are the built-in ones: it cannot be opened: No such file" in elsewhere,
          elsewhere)


def check_pageable_costs(ectool, path, calibration):
    """Pageable chunks on a GPU that is slower than the CPU, and faster."""
    predicted = re.search(r"cpu \(\w+\) +([0-9.]+) us", ectool.right("explain", *CALL))[1]
    edited = copy.deepcopy(calibration)
    for part, runs in ((1.5, False), (0.75, True)):
        edited["device"]["pageable"] = {name: 0 for name in RATES} | {"call_us": part * float(predicted)}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(edited, file)
        said = lines(ectool.right("explain", *CALL))["runs"]
        check(said.startswith("cuda; ") == runs, f"{part}: {said}")


def check_replay(ectool, directory, there):
    path = os.path.join(directory, "mismatch.bin")

    def replay(content):
        with open(path, "wb") as file:
            file.write(content)
        status, out, err = ectool("replay", path)
        return status, dict(line.split(None, 1) for line in out.splitlines()), err

    for residence in RESIDENCES:
        for accumulate in (False, True):
            status, said, err = replay(reproducer(residence, accumulate))
            check((status, err) == (0, ""), f"{residence}: {status} {said} {err}")
            check(said["recorded"].startswith("x86: WRONG: byte 4917 of target 1 is 0x"), said["recorded"])
            check(said["recorded"].endswith("; isal: right"), said["recorded"])
            for backend in ("isal", "reference"):
                check(said[backend] == "right", f"{backend} {said[backend]}")
            if there:
                check(said["cuda"] == "right", said["cuda"])
            elif "cuda" in said:
                check(said["cuda"].startswith("no GPU ("), said["cuda"])
    # A machine that is wrong at the reference only, where the judge was; names of whoever wrote the file.
    status, said, _ = replay(reproducer(wrong_judge=True, backend=b"\x1b[31m\xff"))
    check(status == 1 and said["recorded"].startswith("?[31m?: WRONG"), f"{status} {said}")
    check("isal: WRONG: byte 4900 of target 0 is 0x" in said["recorded"], f"{status} {said}")
    # Of chunks that are too long the part with the block in it.
    for offset in (0, 1 << 31, (1 << 32) - 100):
        status, said, err = replay(reproducer(chunk_bytes=1 << 32, block_offset=offset))
        check(status == 0 and said["reference"] == "right", f"{status} {said} {err}")
        check(f"WRONG: byte {offset + 17} of" in said["recorded"], said)

    good = reproducer()
    wrong_file = "it is no reproducer of this version"
    for content, why in ((b"", wrong_file), (b"{}", wrong_file), (b"ec_dump2" + good[8:], wrong_file),
                         (good[:79], "it is cut short"), (good[:-1], f"it has {len(good) - 1} bytes, and must have {len(good)}"),
                         (b" " * ((2 << 20) + 1), "it is larger than 2097152 bytes"),
                         (reproducer(chunk_bytes=1 << 40), "chunk_bytes must be a whole number from 1 to 4294967296")):
        status, said, err = replay(content)
        check((status, said, err) == (2, {}, f"ectool: replay: {path}: {why}\n"), f"{why}: {status} {err}")
    fifo = os.path.join(directory, "fifo")
    os.mkfifo(fifo)
    for arguments, why in (([], "replay takes one file, a reproducer"), (["a", "b"], "replay takes one file, a reproducer"),
                           ([directory], f"replay: {directory}: it is not a regular file"),
                           ([fifo], f"replay: {fifo}: it is not a regular file"),
                           (["/dev/zero"], "replay: /dev/zero: it is not a regular file"),
                           (["/none"], "replay: /none: it cannot be opened: No such file or directory"),
                           (["a", "--show"], "--show goes with calibrate only")):
        status, out, err = ectool("replay", *arguments)
        check((status, out, err) == (2, "", f"ectool: {why}\n"), f"{arguments}: {status} {err}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ectool")
    parser.add_argument("--emulated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        ectool = Ectool(options.ectool, options.emulated, directory)
        there = bool(options.emulated)
        if not there and "GPU: none" not in ectool.right("explain", *CALL, EC_CUDA_CALIBRATION="none"):
            there = None
        if there is None:
            print("this machine has a GPU: what is said without one is not tested")
        check("explain NAME=VALUE" in ectool.right("--help"), "--help")
        check_bad_input(ectool)
        if there is not None:
            check_explain(ectool, there)
            check_calibrate(ectool, directory, there)
            check_replay(ectool, directory, there)
        # Without the device, which is measured above and takes its time where it is emulated.
        unwritable = Ectool(options.ectool, None, directory)
        status, _, err = unwritable("calibrate", "--output", directory)
        check(status == 1 and err.endswith(f"ectool: {directory} cannot be written: Is a directory\n"), err)


if __name__ == "__main__":
    main()
