"""Compiles each kernel file for the given chips and fails on a kernel that spills or has a stack frame.

kernel_resources_test.py --nvcc NVCC --root FOLDER --archs 75,80 FILE.cu...
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"Compiling entry function '(\w+)'")
USE = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


# These keep all they work on in registers. Where that would leave one block a multiprocessor too few, they are held to
# the blocks that were measured to be best, which costs a few bytes that are written and read once a tile. The widest
# paired kernel has all registers there are; chips that have no such instruction (10.0) need more. The table kernel
# has a form that compares; beside the kernel without it 8+3 was as fast on an H100.
ALLOWED_BYTES = {"bit_kernel.cu": 96, "paired_kernel.cu": 96, "table_kernel.cu": 160}


def allowed(file):
    return ALLOWED_BYTES.get(os.path.basename(file), 0)


def offenders(options, file, arch, cubin):
    done = subprocess.run([options.nvcc, "-cubin", "-std=c++17", "--expt-relaxed-constexpr", "-O3", "-Xptxas", "-v",
                           f"-arch=sm_{arch}", "-I", options.root, "-o", cubin, file],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{file} for sm_{arch}:\n{done.stderr}")
    entries, uses = ENTRY.findall(done.stderr), USE.findall(done.stderr)
    # Device functions that are not inlined get a line of their own.
    if not entries or len(uses) < len(entries):
        sys.exit(f"{file} for sm_{arch}: the report of ptxas is not understood:\n{done.stderr}")
    if len(uses) > len(entries):
        yield f"{file} for sm_{arch}: functions that are not inlined"
    for name, use in zip(entries, uses):
        print(f"sm_{arch} {name}: {use[0]} bytes of stack, {use[1]} + {use[2]} of spills")
        if max(map(int, use)) > allowed(file):
            yield f"{file} for sm_{arch}: {name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--archs", required=True)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = [o for file in options.files for arch in options.archs.split(",")
               for o in offenders(options, file, arch, os.path.join(folder, "kernel.cubin"))]
    if bad:
        sys.exit("stack or spills in:\n" + "\n".join(bad))


if __name__ == "__main__":
    main()
