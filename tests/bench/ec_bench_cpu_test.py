"""Runs ec_bench cpu with one sample of everything and checks exit status and report.

ec_bench_cpu_test.py EC_BENCH
"""
import json
import os
import sys
import tempfile

from running import check, run

ROW = {"contestant", "road", "op", "technique", "k", "m", "erasures", "chunk_bytes", "layout", "temperature", "threads",
       "call_us", "source_gbps", "limit_gbps", "ratio_limit", "ratio_isal", "ratio_isa_plugin", "noise", "verified"}
SHAPES = {(4, 2), (8, 3), (8, 4), (10, 4), (16, 4), (20, 4), (32, 8), (64, 16)}


def rows_of(bench, sections):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.json")
        status, _, err = run(bench, "cpu", "--sections", *sections, "--rounds", "1", "--sample-ms", "0", "--json", file)
        check(status == 0, f"exit status {status}: {err}")
        with open(file, encoding="utf-8") as f:
            rows = json.load(f)["rows"]
    for row in rows:
        check(set(row) == ROW, f"row keys {sorted(row)}")
        check(row["verified"] is True and row["call_us"] > 0, f"not verified or not timed: {row}")
    return rows


def main():
    bench = sys.argv[1]
    for row in rows_of(bench, ["warm", "decode"]):
        check(row["source_gbps"] > 0 and row["limit_gbps"] > 0 and row["ratio_limit"] > 0, f"no figures: {row}")
        check(row["op"] == "encode" or row["erasures"] == row["m"], f"nothing lost: {row}")
    solved = rows_of(bench, ["solve"])
    check(all(row["op"] == "solve" and row["source_gbps"] is None and row["limit_gbps"] is None for row in solved),
          "a solve has no chunks")
    check({(row["contestant"], row["k"], row["m"]) for row in solved} ==
          {(contestant, k, m) for contestant in ("plan", "isal") for k, m in SHAPES}, "contestants and shapes of solve")
    status, _, err = run(bench, "cpu", "--sections", "nonsense")
    check(status == 2 and "nonsense" in err and "solve" in err, f"a bad section: {status} {err}")


if __name__ == "__main__":
    main()
