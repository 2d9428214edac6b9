"""Runs ec_bench on tiny objects and checks exit status, report and the comparison of reports.

ec_bench_test.py --bench EC_BENCH --compare COMPARE.PY SUBCOMMAND OPTIONS..., where the options name the contestants
and operations.
"""
import argparse
import copy
import json
import os
import sys
import tempfile

from running import check, run

HEADER = {"device", "driver", "cpu", "last-level cache", "host", "commit", "command", "date", "clock", "cold pool"}
ROW = {"op", "technique", "k", "m", "erasures", "object_bytes", "chunk_bytes", "pieces", "pool_stripes",
       "stripes_in_flight", "threads", "backend", "path", "memory", "verified", "verified_against", "samples",
       "median_seconds", "noise_percent", "object_gbps", "moved_gbps", "ratio", "baseline"}
PACE = ["--rounds", "3", "--sample-ms", "0", "--cold-bytes", "8K"]


def check_report(report, arguments):
    check(set(report["header"]) == HEADER, f"header keys {sorted(report['header'])}")
    check(all(report["header"].values()), f"an empty header field: {report['header']}")
    contestants, ops = arguments[2].split(","), arguments[4].split(",")
    # 2 techniques, 2 shapes, 3 sizes, 2 counts of threads, warm and cold.
    check(len(report["rows"]) == len(contestants) * len(ops) * 2 * 2 * 3 * 2 * 2, f"{len(report['rows'])} rows")
    for row in report["rows"]:
        check(set(row) == ROW, f"row keys {sorted(row)}")
        check(row["verified"] is True, f"not verified: {row}")
        check(row["verified_against"] != row["backend"], f"its own judge: {row}")
        check(row["samples"] == 3 and row["median_seconds"] > 0 and row["object_gbps"] > 0, f"no timing: {row}")
        check(row["chunk_bytes"] % 32 == 0 and row["k"] * row["chunk_bytes"] >= row["object_bytes"], f"chunk: {row}")
    check({row["backend"] for row in report["rows"]} == set(contestants), "contestants")
    check({row["op"] for row in report["rows"]} == set(ops), "operations")


def check_comparison(compare, report, folder):
    def compare_with(changed):
        files = [os.path.join(folder, name) for name in ("a.json", "b.json")]
        for file, content in zip(files, (report, changed)):
            with open(file, "w", encoding="utf-8") as f:
                json.dump(content, f)
        return run(sys.executable, compare, *files)

    def with_row(**fields):
        changed = copy.deepcopy(report)
        changed["rows"][0].update(fields)
        return changed

    report = with_row(object_gbps=10.0, noise_percent=3.0)
    check(compare_with(report)[0] == 0, "a report is not worse than itself")
    check(compare_with(with_row(object_gbps=9.5))[0] == 0, "5 % slower with 3 % noise each")
    check(compare_with(with_row(object_gbps=9.3))[0] == 1, "7 % slower with 3 % noise each")
    check(compare_with(with_row(object_gbps=9.5, noise_percent=0.0))[0] == 1, "5 % slower with 3 % noise in one")
    check(compare_with(with_row(object_gbps=11.0))[0] == 0, "faster")
    check(compare_with(with_row(verified=False))[0] == 1, "wrong bytes")
    check(compare_with({"rows": report["rows"][1:]})[0] == 1, "a row that is gone")
    check(compare_with({"no": "rows"})[0] == 2, "not a report")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--compare", required=True)
    options, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.json")
        status, out, err = run(options.bench, *arguments, *PACE, "--techniques", "reed_sol_van,cauchy", "--shapes",
                               "2+1,4+2", "--sizes", "100,1000,4K", "--threads", "1,2", "--cache", "warm,cold",
                               "--json", file)
        check(status == 0, f"exit status {status}: {err}")
        with open(file, encoding="utf-8") as f:
            report = json.load(f)
        check_report(report, arguments)
        check(len(out.splitlines()) == len(HEADER) + 2 + len(report["rows"]), "lines of the table")
        check_comparison(options.compare, report, folder)

    status, _, err = run(options.bench, arguments[0], "--shapes", "4x2")
    check(status == 2 and "--shapes 4x2" in err and "K+M" in err, f"a bad shape: {status} {err}")
    status, _, err = run(options.bench, "nonsense")
    check(status == 2 and "nonsense" in err and "codec" in err, f"a bad sub-command: {status} {err}")


if __name__ == "__main__":
    main()
