"""Fails on a kernel that spills registers or has a stack frame, and on a warning, by the build's reports of ptxas.

kernel_resources_test.py FOLDER-OF-REPORTS
"""
import pathlib
import re
import sys

ENTRY = re.compile(r"Compiling entry function '\w+'")
USE = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")

# These keep all they work on in registers. Where that would leave a multiprocessor too few warps, they are held to
# the warps that were measured to be best, which costs a few bytes that are written and read once a tile. The widest
# paired kernel has all registers there are; chips that have no such instruction (10.0) need more. The table kernel
# has a form that compares; beside the kernel without it 8+3 was as fast on an H100.
ALLOWED_BYTES = {"bit_kernel": 76, "paired_kernel": 72, "table_kernel": 160}


def main():
    reports = sorted(pathlib.Path(sys.argv[1]).glob("*.ptxas"))
    bad = [] if reports else ["no report"]
    for report in reports:
        text = report.read_text(encoding="utf-8")
        entries, uses = len(ENTRY.findall(text)), [max(map(int, use)) for use in USE.findall(text)]
        print(f"{report.stem}: {entries} kernels, {max(uses, default=0)} bytes of stack or spills at most")
        bad += [f"{report}: {line}" for line in text.splitlines() if "warning" in line]
        # Device functions that are not inlined get a line of their own.
        if entries == 0 or len(uses) != entries:
            bad.append(f"{report}: {entries} kernels, {len(uses)} lines of memory: the report is not understood, "
                       "or functions are not inlined")
        elif max(uses) > ALLOWED_BYTES.get(report.stem, 0):
            bad.append(f"{report}: {max(uses)} bytes of stack or spills")
    sys.exit("\n".join(bad) if bad else 0)


if __name__ == "__main__":
    main()
