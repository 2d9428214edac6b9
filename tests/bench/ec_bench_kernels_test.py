"""Runs `ec_bench kernels` on few bytes, with whatever device there is, and checks report, refusals and plots.

ec_bench_kernels_test.py EC_BENCH PLOT.PY
"""
import json
import os
import sys
import tempfile

from running import check, run

KEYS = {"kernel", "op", "technique", "k", "m", "erasures", "lost", "chunk_bytes", "stripes", "source_gbps", "moved_gbps",
        "ratio_copy", "ratio_xor", "noise", "verified"}


def main():
    bench, plot = sys.argv[1:]
    # The emulated device does not know the kernels that are the bench's own; they are left out there.
    names = "cuda-naive,cuda-tile-w128,cuda-register-tile,table,bits"
    own = {"xor", "cuda-naive", "cuda-register-tile"}
    small = ["kernels", "--total", "1M", "--runs", "3", "--kernels", names]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.json")
        status, out, text = run(bench, *small, "--shapes", "8+3,10+4", "--ops", "encode,decode", "--chunk", "4K,16K", "--json",
                           file)
        check(status == 0, f"exit status {status}: {text}")
        with open(file, encoding="utf-8") as f:
            report = json.load(f)
        rows = report["rows"]
        check(all(set(row) == KEYS and row["verified"] is True and row["moved_gbps"] > 0 for row in rows), "rows")
        kernels = {row["kernel"] for row in rows}
        emulated = "emulated" in report["header"]["gpu"]
        check({"xor", *names.split(",")} - (own if emulated else set()) == kernels, f"kernels {kernels}")
        check(("left out" in out and "cuda-naive" in out) == emulated, f"left out: {out}")
        check(len(rows) == 8 * len(kernels), f"{len(rows)} rows of {len(kernels)} kernels")
        check(all((row["ratio_xor"] is None) == emulated for row in rows) and
              all(row["ratio_xor"] == 1 for row in rows if row["kernel"] == "xor"), "XOR is its own yardstick")
        status, _, text = run(sys.executable, plot, file, folder)
        check(status == 0 and all(os.path.getsize(os.path.join(folder, f)) > 1000
                                  for f in ("ladder.svg", "chunk-size.svg")), f"plots: {status} {text}")
    # What codes many stripes a launch.
    many = "generated" if emulated else names
    status, out, text = run(bench, *small[:-1], many, "--chunk", "4K", "--stripes", "16", "--shapes", "8+3")
    check(status == 0 and f"\n{'generated' if emulated else 'xor'} " in out, f"many stripes: {status} {text}")
    for option, value in (("--kernels", "none"), ("--chunk", "1000"), ("--shapes", "4x2"), ("--ops", "update"), ("--lost", "all")):
        status, _, text = run(bench, *small[:-2], option, value)
        check(status == 2 and f"{option} {value}" in text, f"{option} {value}: {status} {text}")


if __name__ == "__main__":
    main()
