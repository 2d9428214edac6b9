#!/usr/bin/env python3
"""Compares two reports of ec_bench codec or ceph (--json): compare.py BEFORE.json AFTER.json

Rows are matched by everything but their timings. A row is slower if its object GB/s fell by more than the noise of
both rows together (and at least --floor percent); changes within that are reported as noise.
Exit status: 0, 1 if a row is slower, no longer verified or gone, 2 for files that cannot be compared.
"""
import argparse
import json
import sys

KEY = ("op", "technique", "k", "m", "erasures", "object_bytes", "chunk_bytes", "threads", "backend", "path")


def read_rows(file):
    try:
        with open(file, encoding="utf-8") as f:
            rows = json.load(f)["rows"]
        return {tuple(row[name] for name in KEY): row for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"compare.py: {file}: not a report of ec_bench ({error!r})", file=sys.stderr)
        sys.exit(2)


def judge(before, after, floor):
    """The verdict on a pair of rows and the change in percent, None where there is nothing to compare."""
    if not after["verified"]:
        return "WRONG", None
    if not before["verified"]:
        return "repaired", None
    change = 100 * (after["object_gbps"] / before["object_gbps"] - 1)
    noise = max(floor, before["noise_percent"] + after["noise_percent"])
    if change < -noise:
        return "SLOWER", change
    return ("faster" if change > noise else "same"), change


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--floor", type=float, default=2.0, help="percent that is never called a change (default 2)")
    options = parser.parse_args()
    before, after = read_rows(options.before), read_rows(options.after)
    if not before:
        print(f"compare.py: {options.before}: no rows", file=sys.stderr)
        return 2
    bad = 0
    for key, row in before.items():
        verdict, change = judge(row, after[key], options.floor) if key in after else ("GONE", None)
        bad += verdict.isupper()
        shown = "" if change is None else f"{change:+.1f} %"
        print(f"{verdict:<9}{shown:>10}   " + " ".join(f"{name}={value}" for name, value in zip(KEY, key)))
    print(f"{len(before)} rows, {bad} worse")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
