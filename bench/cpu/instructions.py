#!/usr/bin/env python3
"""Counts the instructions of encode calls, and of decode calls with a signature never seen before ("plan"), and
compares them with those recorded in bench/results/cpu-instructions.json, so that a kernel or a call that has become
longer shows on a machine whose clock tells nothing.

usage: instructions.py PROGRAM [--check FILE | --record FILE]
  PROGRAM        ec_bench_instructions of an optimised build
  --check FILE   fail where a count is above the recorded one by more than the tolerance
  --record FILE  write the counts, with the compiler that made the program

Without either it prints the counts. Callgrind counts what valgrind can run; AVX-512 and GFNI, which it cannot, the
program counts by stepping through one call, which is slow and therefore done for short chunks only. Counts of one
program are exact and repeat. Another compiler makes another program, so its tolerance is wider. Not compared: ISA-L,
which is there to set ours beside, and jobs above 1 MiB, which are walked as the caches of the machine ask for.

Exit status: 0; 1 if a count is too high; 2 for a command line or file that cannot be used; 77 if valgrind is missing
or nothing can be counted here.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SHAPES = ["4+2", "8+3", "10+4", "16+4"]
CALLGRIND = [(contestant, shape, size) for contestant in ("x86-avx2", "codec", "isal") for shape in SHAPES
             for size in (4096, 65536)] + [("codec-sampled", "4+2", 4096)] + [
                 ("plan", shape, 64) for shape in SHAPES]
STEPPED = [(contestant, shape, 4096) for contestant in ("x86-gfni512", "x86-gfni256", "x86-avx512") for shape in SHAPES]
CALLS = 16  # that the program makes between two counts of callgrind's
TOLERANCE = 1.05
TOLERANCE_OTHER_COMPILER = 1.25
CANNOT_COUNT = 3
SKIPPED = 77


class Unusable(Exception):
    """A command line, program or file that cannot be used."""


def argument(case):
    return ":".join(str(part) for part in case)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == CANNOT_COUNT:
        return None
    if done.returncode != 0:
        raise Unusable(f"{' '.join(command[:3])} ...: exit status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def by_callgrind(program, cases):
    """Instructions of one call for each case; None if the program cannot run them here."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        if run("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
               "--toggle-collect=counted_calls", "--dump-after=count_argument", program,
               *map(argument, cases)) is None:
            return None
        counts = []
        for i in range(1, len(cases) + 1):
            with open(f"{out}.{i}", encoding="utf-8") as f:
                counts.append(int(re.search(r"^totals: (\d+)$", f.read(), re.MULTILINE).group(1)) / CALLS)
        return counts


def by_steps(program, case):
    out = run(program, "--step", argument(case))
    return None if out is None else int(out)


def row(case, counted_by, instructions):
    contestant, shape, size = case
    k, m = map(int, shape.split("+"))
    return {"contestant": contestant, "k": k, "m": m, "chunk_bytes": size, "counted_by": counted_by,
            "instructions_per_call": round(instructions),
            "instructions_per_source_byte": round(instructions / (k * size), 4)}


def about(program):
    return {"compiler": run(program, "--compiler").strip(), "valgrind": run("valgrind", "--version").strip(),
            "command": "bench/cpu/instructions.py build/release/bin/ec_bench_instructions --record FILE"}


def count(program):
    rows = []
    counts = by_callgrind(program, CALLGRIND)
    if counts is not None:
        rows += [row(case, "callgrind", instructions) for case, instructions in zip(CALLGRIND, counts)]
    for case in STEPPED:
        instructions = by_steps(program, case)
        if instructions is not None:
            rows.append(row(case, "steps", instructions))
    return rows


def key(counted):
    return tuple(counted[part] for part in ("contestant", "k", "m", "chunk_bytes"))


def line(counted, remark=""):
    return (f"{counted['contestant']:12} {counted['k']:3}+{counted['m']:<2} {counted['chunk_bytes']:6} "
            f"{counted['instructions_per_call']:8} {counted['instructions_per_source_byte']:8.4f}  "
            f"{counted['counted_by']:9} {remark}").rstrip()


def is_compared(counted):
    return counted["contestant"] != "isal" and (counted["k"] + counted["m"]) * counted["chunk_bytes"] <= 1 << 20


def check(rows, header, recorded):
    """Prints every row beside the recorded one; whether all are within the tolerance."""
    then = recorded["header"]
    tolerance = TOLERANCE if then["compiler"] == header["compiler"] else TOLERANCE_OTHER_COMPILER
    print(f"recorded with compiler {then['compiler']}, counted with {header['compiler']}: "
          f"tolerance {tolerance - 1:.0%}")
    before = {key(r): r for r in recorded["rows"]}
    counted = {key(r) for r in rows}
    sound = True
    for r in rows:
        known = before.get(key(r))
        if known is None:
            print(line(r, "not recorded: FAILED"))
            sound = False
            continue
        ratio = r["instructions_per_call"] / known["instructions_per_call"]
        too_many = ratio > tolerance and is_compared(r)
        sound = sound and not too_many
        print(line(r, f"{ratio:.3f} of the recorded{': FAILED' if too_many else ''}"))
    for r in recorded["rows"]:
        if key(r) not in counted:
            print(line(r, "recorded, cannot be counted here"))
    return sound


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--check", metavar="FILE")
    task.add_argument("--record", metavar="FILE")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("instructions.py: valgrind is not installed", file=sys.stderr)
        return SKIPPED
    try:
        header = about(options.program)
        rows = count(options.program)
        if not rows:
            print("instructions.py: nothing can be counted on this machine", file=sys.stderr)
            return SKIPPED
        if options.check:
            with open(options.check, encoding="utf-8") as f:
                return 0 if check(rows, header, json.load(f)) else 1
        if options.record:
            with open(options.record, "w", encoding="utf-8") as f:
                json.dump({"header": header, "rows": rows}, f, indent=1)
                f.write("\n")
        for r in rows:
            print(line(r))
        return 0
    except (Unusable, OSError, KeyError, ValueError) as error:
        print(f"instructions.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
