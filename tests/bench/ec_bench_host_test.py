"""Runs `ec_bench host` on few bytes, with whatever device there is, and checks report, refusals and the plot.

ec_bench_host_test.py EC_BENCH PLOT.PY FAULTS, the directory of the fault driver
"""
import copy
import json
import os
import sys
import tempfile

from running import check, run

KEYS = {"op", "k", "m", "chunk_bytes", "residence", "processes", "threads", "gpus", "backend", "chosen", "source_gbps",
        "ceiling_gbps", "ratio_ceiling", "call_us", "p50_us", "p99_us", "cpu_s_per_gb", "isal_cpu_s_per_gb", "verified", "noise", "chosen_share"}
SMALL = ["host", "--shapes", "4+2", "--rounds", "3", "--sample-ms", "0", "--case-ms", "0", "--warm-ms", "1",
         "--link-bytes", "1M"]


def check_rows(rows, gpus=1, processes=1):
    for row in rows:
        check(set(row) == KEYS, f"row keys {sorted(row)}")
        check(row["verified"] is True and row["gpus"] == gpus and row["processes"] == processes, f"{row}")
        check(row["p50_us"] <= row["p99_us"], f"quantiles: {row}")
        check(all(row[figure] > 0 for figure in ("source_gbps", "ceiling_gbps", "ratio_ceiling", "call_us",
                                                 "p50_us", "p99_us", "cpu_s_per_gb")), f"a figure is missing: {row}")
        gbps = 1e-3 * processes * row["threads"] * row["k"] * row["chunk_bytes"] / row["call_us"]
        check(abs(gbps / row["source_gbps"] - 1) < 1e-6, f"GB/s are not those of the calls: {row}")
        check((row["isal_cpu_s_per_gb"] is None) == (row["residence"] == "device"), f"ISA-L's CPU time: {row}")
        if row["backend"] == "isal":
            check(row["isal_cpu_s_per_gb"] == row["cpu_s_per_gb"], f"ISA-L against itself: {row}")
        # x86 gives way to isal where the CPU lacks the instructions.
        allowed = {"auto": ("cuda", "x86", "isal"), "x86": ("x86", "isal")}.get(row["backend"], (row["backend"],))
        check(row["chosen"] in allowed and 0 < row["chosen_share"] <= 1, f"another back end ran: {row}")
    names = [tuple(row[key] for key in ("op", "k", "m", "chunk_bytes", "residence", "threads", "backend")) for row in rows]
    check(len(names) == len(set(names)), "a row is there twice")


def check_report(bench, plot, faults, folder):
    file = os.path.join(folder, "report.json")
    status, out, text = run(bench, *SMALL, "--chunks", "4K,16K", "--threads", "1,2", "--json", file)
    check(status == 0, f"exit status {status}: {text}")
    with open(file, encoding="utf-8") as f:
        report = json.load(f)
    rows = report["rows"]
    check_rows(rows)
    cores = {row["threads"] for row in rows if row["backend"] == "isal" and row["op"] == "decode-m"}
    # Two sizes: pinned encode and 2 decodes of 4 back ends, pageable encode of the same, 3 ops on the device of 2.
    check(len(rows) == 2 * (2 * (3 * 4 + 4 + 3 * 2) + 3 * (len(cores) - 2)), f"{len(rows)} rows")
    check(cores == {1, 2, len(os.sched_getaffinity(0))}, f"ISA-L on {cores} threads")
    check({row["residence"] for row in rows} == {"pageable", "pinned", "device"}, "residences")
    check(report["router"]["points"] == 8 and "median" in out and "worst" in out, f"router: {report['router']}")
    check(len(report["ceilings"]) > 0 and report["left_out"] == [], "ceilings")
    status, _, text = run(sys.executable, plot, file, folder)
    svg = os.path.join(folder, "host-chunk-size.svg")
    check(status == 0 and os.path.getsize(svg) > 1000, f"plot: {status} {text}")
    check_crossing(plot, report, folder)
    check_processes(bench, faults, folder)
    if "emulated" in report["header"]["gpu"]:
        check_two_devices(bench, faults, file)


def check_two_devices(bench, faults, file):
    """The ceiling is that of both links; no kernel measures it. Here every copy to a device takes the same time. Chunks
    so long are coded by generated kernels."""
    copies = {}
    for devices in ("0", "0,1"):
        status, _, text = run(bench, *SMALL, "--sections", "pinned,device", "--chunks", "4K,1M", "--threads", "2",
                              "--backends", "cuda,isal", "--json", file,
                              EC_EMULATED_DEVICES="2", EC_CUDA_DEVICES=devices, EC_FAULTS="cuMemcpyHtoDAsync:every=1:slow=20ms",
                              LD_LIBRARY_PATH=f"{faults}:{os.environ['LD_LIBRARY_PATH']}")
        check(status == 0, f"devices {devices}: {status} {text}")
        with open(file, encoding="utf-8") as f:
            report = json.load(f)
        check_rows(report["rows"], gpus=len(devices.split(",")))
        check(report["header"]["command"].startswith(f"EC_CUDA_DEVICES={devices} ec_bench host "), report["header"]["command"])
        ways = {way for ceiling in report["ceilings"] for way in ceiling["source_gbps"]}
        check(devices == "0" or ways == {"copies", "device copy"}, f"ceilings {ways}")
        copies[devices] = next(c["source_gbps"]["copies"] for c in report["ceilings"] if not c["on_device"])
    # A device that fails leaves its work to the other, which is not what was to be measured: at the first size, and at
    # the second, where the rows of the first are kept.
    for nth, rows in ((20, 0), (65, 2)):
        status, _, text = run(bench, *SMALL, "--sections", "pinned", "--chunks", "4K,16K", "--ops", "encode", "--threads", "2",
                              "--backends", "cuda,isal", "--json", file, EC_EMULATED_DEVICES="2", EC_CUDA_DEVICES="0,1", EC_CUDA_RETRY_S="0",
                              EC_FAULTS=f"cuLaunchKernel:nth={nth}:CUDA_ERROR_NOT_INITIALIZED",
                              LD_LIBRARY_PATH=f"{faults}:{os.environ['LD_LIBRARY_PATH']}")
        check(status == 1 and "a device failed while encode 4+2" in text, f"a device that fails: {status} {text}")
        with open(file, encoding="utf-8") as f:
            check(len(json.load(f)["rows"]) == rows, f"what was measured before launch {nth}")
    ratio = copies["0,1"] / copies["0"]
    check(1.6 < ratio < 2.1, f"two links carry {ratio} times what one does")


def check_processes(bench, faults, folder):
    """Many processes measure the same; one that fails ends them all."""
    file = os.path.join(folder, "processes.json")
    asked = ["host", "--rounds", "3", "--case-ms", "0", "--warm-ms", "1", "--link-bytes", "1M", "--shapes", "8+3", "--sections", "pinned", "--ops", "encode", "--chunks", "4K,64K", "--threads", "2",
             "--backends", "cuda,auto,x86", "--processes", "3", "--json", file]
    status, out, text = run(bench, *asked, "--sample-ms", "20")
    check(status == 0, f"processes: {status} {text}")
    with open(file, encoding="utf-8") as f:
        report = json.load(f)
    check(len(report["rows"]) == 6, f"{len(report['rows'])} rows of processes")
    for row in report["rows"]:
        check(row["isal_cpu_s_per_gb"] is None, "ISA-L did not take part")
    check_rows([{**row, "isal_cpu_s_per_gb": 1} for row in report["rows"]], processes=3)
    check(len(report["ceilings"]) == 2 and len(out.splitlines()) == len(report["header"]) + 2 + 6, f"processes: {out}")
    command = report["header"]["command"]
    check("--processes 3" in command and "--member" not in command, command)
    status, _, text = run(bench, *asked, "--sample-ms", "0", EC_CUDA_RETRY_S="0", EC_FAULTS="cuLaunchKernel:nth=30:CUDA_ERROR_NOT_INITIALIZED",
                          LD_LIBRARY_PATH=f"{faults}:{os.environ['LD_LIBRARY_PATH']}")
    check(status == 1 and "a device failed while encode 8+3" in text and "a process of 3" in text, f"a member that fails: {text}")


def check_crossing(plot, report, folder):
    """The GPU passes one line, half way between two sizes; no other."""
    report = copy.deepcopy(report)
    for row in report["rows"]:
        small = row["chunk_bytes"] == 4096
        row["source_gbps"] = {"cuda": 10 if small else 30, "x86": 20, "isal": 40}.get(row["backend"], 1)
    file = os.path.join(folder, "made-up.json")
    with open(file, "w", encoding="utf-8") as f:
        json.dump(report, f)
    status, _, text = run(sys.executable, plot, file, folder)
    check(status == 0, f"plot: {status} {text}")
    with open(os.path.join(folder, "host-chunk-size.svg"), encoding="utf-8") as f:
        svg = f.read()
    check(svg.count("<circle") == 1 and "above CPU (x86), 1 thread from 8 KiB on" in svg, "the crossing in the plot")


def main():
    bench, plot, faults = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        check_report(bench, plot, faults, folder)
        nowhere = os.path.join(folder, "no", "report.json")
        status, out, text = run(bench, *SMALL, "--json", nowhere)
        check(status == 2 and nowhere in text and out == "", f"an unwritable report: {status} {text}")

    status, out, text = run(bench, *SMALL, "--sections", "pinned", "--chunks", "4K", "--ops", "encode", "--threads", "1,2",
                            "--largest-bytes", "30000", "--backends", "cuda,isal")
    check(status == 0 and "left out" in text and "2 threads" in text, f"too large: {status} {text}")
    # One stripe over and over, and more than fit: fewer turns are taken.
    for turns, largest in (("1", "1G"), ("16", "200K")):
        status, out, text = run(bench, *SMALL, "--sections", "pinned", "--chunks", "4K", "--threads", "2", "--turns", turns,
                                "--largest-bytes", largest)
        check(status == 0, f"turns {turns}: {status} {text}")
    status, out, text = run(bench, *SMALL, "--sections", "device", "--chunks", "4K", EC_CUDA_DEVICES="63")
    check(status == 1 and "device" in text and "63" in text and out == "", f"no device: {status} {text}")
    for option, value in (("--sections", "none"), ("--backends", "gpu"), ("--chunks", "100"), ("--ops", "update"),
                          ("--threads", "0"), ("--turns", "0"), ("--warm-ms", "-1"), ("--processes", "0")):
        status, _, text = run(bench, "host", option, value)
        check(status == 2 and f"{option} {value}" in text, f"{option} {value}: {status} {text}")


if __name__ == "__main__":
    main()
