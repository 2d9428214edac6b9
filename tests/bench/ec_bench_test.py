"""Runs a sub-command of ec_bench on few bytes, with whatever device there is, and checks exit status, report and
refusals.

ec_bench_test.py EC_BENCH SUBCOMMAND [MORE: for host the folder of the fault driver; for cpu bench/cpu/against_peer and a
libisal.so]
"""
import json
import os
import subprocess
import sys
import tempfile

BENCH, SUBCOMMAND, *MORE = sys.argv[1:]
HEADER = {"device", "driver", "cpu", "last-level cache", "host", "commit", "command", "date"}
CEPH_ROW = {"op", "technique", "k", "m", "erasures", "object_bytes", "chunk_bytes", "threads", "backend", "path",
             "verified", "samples", "median_seconds", "noise_percent", "object_gbps", "moved_gbps", "ratio"}
CPU_ROW = {"contestant", "op", "technique", "k", "m", "erasures", "chunk_bytes", "layout", "temperature", "threads",
           "call_us", "source_gbps", "limit_gbps", "ratio_limit", "ratio_isal", "ratio_peer", "noise", "verified"}
KERNELS_ROW = {"kernel", "op", "technique", "k", "m", "erasures", "lost", "chunk_bytes", "stripes", "source_gbps",
               "moved_gbps", "ratio_copy", "ratio_xor", "noise", "verified"}
HOST_FIGURES = {"source_gbps", "ceiling_gbps", "ratio_ceiling", "call_us", "p50_us", "p99_us", "cpu_s_per_gb"}
HOST_ROW = HOST_FIGURES | {"op", "k", "m", "chunk_bytes", "residence", "processes", "threads", "gpus", "backend", "chosen",
                           "chosen_share", "isal_cpu_s_per_gb", "verified", "noise"}
HOST_PACE = ["--rounds", "3", "--case-ms", "0", "--warm-ms", "1", "--link-bytes", "1M", "--sample-ms"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(*command, **environment):
    """Exit status, and standard output with standard error behind it."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def measure(*options, status=0, says="", keys=None, **environment):
    """The report of a run, whose rows have these keys; an empty one if it has none."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.json")
        ended, text = run(BENCH, SUBCOMMAND, *options, "--json", file, **environment)
        check(ended == status and says in text, f"{options}: exit status {ended}: {text}")
        with open(file, encoding="utf-8") as f:
            report = json.loads(f.read() or '{"rows": []}')
    header = report.get("header", {})
    check(status != 0 or HEADER <= set(header) and all(header.values()), f"header: {header}")
    for row in report["rows"]:
        check(set(row) == keys and row["verified"] is True, f"row: {row}")
        # A line of the table each.
        check(str(row["chunk_bytes"]) in text, f"table: {text}")
    return report


def refuse(**options):
    for option, value in options.items():
        option = "--" + option.replace("_", "-")
        status, text = run(BENCH, SUBCOMMAND, option, value)
        check(status == 2 and f"{option} {value}" in text, f"{option} {value}: {status} {text}")


def test_ceph():
    ops = {"encode", "decode", "read", "degraded-read"}
    rows = measure("--ops", *ops, "--rounds", "3", "--sample-ms", "0", "--shapes", "2+1,4+2,32+8", "--sizes", "100,1000,4K",
                   "--threads", "1,2", keys=CEPH_ROW)["rows"]
    check(len(rows) == 2 * len(ops) * 3 * 3 * 2, f"{len(rows)} rows")
    check({row["backend"] for row in rows} == {"cuda", "isa"} and {row["op"] for row in rows} == ops, "plugins, operations")
    for row in rows:
        check(row["samples"] == 3 and row["median_seconds"] > 0 and row["object_gbps"] > 0, f"no timing: {row}")
        check(row["chunk_bytes"] % 32 == 0 and row["k"] * row["chunk_bytes"] >= row["object_bytes"], f"chunk: {row}")
    refuse(shapes="4x2", ops="fly")


def check_against_peer(against_peer, isal):
    with tempfile.TemporaryDirectory() as folder:
        report, recorded, known = (os.path.join(folder, name) for name in ("report", "recorded", "known"))
        status, text = run(BENCH, "cpu", "--sections", "hot", "--shapes", "4+2,8+3", "--techniques", "cauchy", "--chunks", "100,4097",
                           "--rounds", "1", "--sample-ms", "0", "--coders", "eccoder", "--isal", isal, "--json", report)
        check(status == 0, text)
        with open(report, encoding="utf-8") as f:
            rows = [row for row in json.load(f)["rows"] if row["contestant"] == "eccoder"]
        check(len(rows) == 4 and all(row["ratio_peer"] > 0 for row in rows), f"{rows}")
        # Shorter chunks cost a library more than coding them.
        below = {f"eccoder hot contiguous 4097 encode cauchy {row['k']}+{row['m']}" for row in rows
                 if round(row["ratio_peer"], 4) < 0.97 and row["chunk_bytes"] == 4097}
        check(run(against_peer, "record", report, report, recorded)[0] == 0, "two reports are recorded")
        check(run(against_peer, "accept", recorded, known)[0] == 0, "what is below is accepted")
        with open(known, encoding="utf-8") as f:
            check(set(f.read().splitlines()) == below, f"below the peer: {rows}")
        check(run(against_peer, "check", recorded, known)[0] == 0, "what is known is all there is")
        with open(known, "a", encoding="utf-8") as f:
            f.write("eccoder hot contiguous 1 encode cauchy 4+2\n")
        status, text = run(against_peer, "check", recorded, known)
        check(status == 1 and "no longer below the peer: eccoder hot contiguous 1 " in text, text)
        check(run(against_peer, "check", recorded)[0] == 2, "a file is missing")


def test_cpu():
    shapes = {(4, 2), (8, 3), (8, 4), (10, 4), (16, 4), (20, 4), (32, 8), (64, 16)}
    # Every contestant is verified before it is timed, so one sample of each is enough.
    rows = measure("--sections", "hot", "decode", "solve", "--rounds", "1", "--sample-ms", "0", keys=CPU_ROW)["rows"]
    for row in rows:
        check(row["call_us"] > 0, f"not timed: {row}")
        check((row["op"] == "solve") == (row["source_gbps"] is None) == (row["limit_gbps"] is None), f"figures: {row}")
        check(row["op"] == "encode" or row["erasures"] == row["m"], f"nothing lost: {row}")
    check({(row["contestant"], row["k"], row["m"]) for row in rows if row["op"] == "solve"} ==
          {(contestant, *shape) for contestant in ("plan", "isal") for shape in shapes}, "contestants and shapes of solve")
    check_against_peer(*MORE)
    refuse(sections="nonsense", chunks="0", techniques="x", coders="x")
    status, text = run(BENCH, "nonsense")
    check(status == 2 and "nonsense: must be one of cpu, " in text, f"a bad sub-command: {status} {text}")


def test_kernels():
    # The emulated device does not know the kernels that are the bench's own; they are left out there.
    names = "cuda-naive,cuda-tile-w128,cuda-register-tile,table,bits,paired,generated"
    report = measure("--total", "1M", "--runs", "3", "--shapes", "8+3,10+4,64+16", "--kernels", names, keys=KERNELS_ROW)
    rows = report["rows"]
    emulated = "emulated" in report["header"]["gpu"]
    check(all(row["moved_gbps"] > 0 for row in rows), "rows")
    own = {"xor", "cuda-naive", "cuda-register-tile"} if emulated else set()
    check({row["kernel"] for row in rows} == {"xor", *names.split(",")} - own, "kernels")
    check(all((row["ratio_xor"] is None) == emulated for row in rows) and
          all(row["ratio_xor"] == 1 for row in rows if row["kernel"] == "xor"), "XOR is its own yardstick")
    check({row["lost"] for row in rows if row["op"] == "decode"} == {"data", "coding", "mixed"}, "what was lost")
    check({row["technique"] for row in rows} == {"reed_sol_van", "cauchy"}, "techniques")
    # Two shapes: encode by two techniques, four decodes, two sizes of one shape; many stripes a launch of the other. One
    # more has one technique, and pairs where m are lost.
    check(sum(row["kernel"] == "table" for row in rows) == 2 * (2 + 4) + 2 + (1 + 4), "cases")
    check(sum(row["kernel"] == "paired" for row in rows) == 3, "cases in pairs")
    check({row["kernel"] for row in rows if row["stripes"] > 1} == {"generated"} | ({"xor"} - own), "many stripes")
    refuse(kernels="none", shapes="4x2", ops="update")


def check_host(rows, gpus=1, processes=1, isal=True):
    for row in rows:
        check(row["gpus"] == gpus and row["processes"] == processes and row["p50_us"] <= row["p99_us"], f"{row}")
        check(all(row[figure] > 0 for figure in HOST_FIGURES), f"a figure is missing: {row}")
        gbps = 1e-3 * processes * row["threads"] * row["k"] * row["chunk_bytes"] / row["call_us"]
        check(abs(gbps / row["source_gbps"] - 1) < 1e-6, f"GB/s are not those of the calls: {row}")
        check((row["isal_cpu_s_per_gb"] is None) == (row["residence"] == "device" or not isal), f"ISA-L's CPU time: {row}")
        if row["backend"] == "isal":
            check(row["isal_cpu_s_per_gb"] == row["cpu_s_per_gb"], f"ISA-L against itself: {row}")
        # x86 gives way to isal where the CPU lacks the instructions.
        allowed = {"auto": ("cuda", "x86", "isal"), "x86": ("x86", "isal")}.get(row["backend"], (row["backend"],))
        check(row["chosen"] in allowed and 0 < row["chosen_share"] <= 1, f"another back end ran: {row}")
    names = [tuple(row[key] for key in ("op", "k", "m", "chunk_bytes", "residence", "threads", "backend")) for row in rows]
    check(len(names) == len(set(names)), "a row is there twice")


def test_host():
    os.environ["EC_CUDA_THRESHOLD"] = "1G"  # `auto` by a rule: what it learns of the emulated device is left to chance
    small = [*HOST_PACE, "0", "--shapes", "4+2"]
    report = measure(*small, "--chunks", "4K,16K", "--threads", "1,2", says="worst", keys=HOST_ROW)
    rows = report["rows"]
    check_host(rows)
    cores = {row["threads"] for row in rows if row["backend"] == "isal" and row["op"] == "decode-m"}
    # Two sizes: pinned encode and 2 decodes of 4 back ends, pageable encode of the same, 3 ops on the device of 2.
    check(len(rows) == 2 * (2 * (3 * 4 + 4 + 3 * 2) + 3 * (len(cores) - 2)), f"{len(rows)} rows")
    check(cores == {1, 2, len(os.sched_getaffinity(0))}, f"ISA-L on {cores} threads")
    check({row["residence"] for row in rows} == {"pageable", "pinned", "device"}, "residences")
    check(report["router"]["points"] == 8 and report["ceilings"] and report["left_out"] == [], f"router: {report['router']}")
    faults = {"LD_LIBRARY_PATH": f"{MORE[0]}:{os.environ['LD_LIBRARY_PATH']}"}
    check_processes(faults)
    if "emulated" in report["header"]["gpu"]:
        check_two_devices(small, faults)

    pinned = [*small, "--sections", "pinned", "--chunks", "4K", "--threads", "1,2"]
    left = measure(*pinned, "--largest-bytes", "40000", "--backends", "cuda,isal", says="left out", keys=HOST_ROW)
    check(any("2 threads" in what for what in left["left_out"]), f"too large: {left['left_out']}")
    # More than fit: fewer turns are taken.
    measure(*pinned, "--largest-bytes", "200K", keys=HOST_ROW)
    measure(*pinned, status=1, says="63", EC_CUDA_DEVICES="63")
    refuse(sections="none", backends="gpu", chunks="100", ops="update", threads="0", warm_ms="-1", processes="0",
           largest_bytes="1", json="/nowhere/x")


def check_two_devices(small, faults):
    """The ceiling is that of both links; no kernel measures it. Here every copy to a device takes the same time. Chunks
    so long are coded by generated kernels."""
    copies = {}
    for devices in ("0", "0,1"):
        report = measure(*small, "--sections", "pinned,device", "--chunks", "4K,1M", "--threads", "2", "--backends",
                         "cuda,isal", keys=HOST_ROW, EC_EMULATED_DEVICES="2", EC_CUDA_DEVICES=devices,
                         EC_FAULTS="cuMemcpyHtoDAsync:every=1:slow=20ms", **faults)
        check_host(report["rows"], gpus=len(devices.split(",")))
        check(f"EC_CUDA_DEVICES={devices} " in report["header"]["command"].split("ec_bench host ")[0],
              report["header"]["command"])
        ways = {way for ceiling in report["ceilings"] for way in ceiling["source_gbps"]}
        check(devices == "0" or ways == {"copies", "device copy"}, f"ceilings {ways}")
        copies[devices] = next(c["source_gbps"]["copies"] for c in report["ceilings"] if not c["on_device"])
    ratio = copies["0,1"] / copies["0"]
    check(1.6 < ratio < 2.1, f"two links carry {ratio} times what one does")
    # A device that fails leaves its work to the other, which is not what was to be measured: at the first size, and at
    # the second, where the rows of the first are kept. How many launches a size takes is left to the machine's load.
    kept = []
    for nth in range(20, 200, 25):
        report = measure(*small, "--sections", "pinned", "--chunks", "4K,16K", "--ops", "encode", "--threads", "2",
                         "--backends", "cuda,isal", keys=HOST_ROW, status=1, says="a device failed while encode 4+2",
                         EC_EMULATED_DEVICES="2", EC_CUDA_DEVICES="0,1", EC_CUDA_RETRY_S="0",
                         EC_FAULTS=f"cuLaunchKernel:nth={nth}:CUDA_ERROR_NOT_INITIALIZED", **faults)
        kept.append(len(report["rows"]))
        if kept[-1] > 0:
            break
    check(kept[0] == 0 and kept[-1] == 2, f"rows kept where launch 20, 45, .. failed: {kept}")


def check_processes(faults):
    """Many processes measure the same; one that fails ends them all."""
    asked = ["--shapes", "8+3", "--sections", "pinned", "--ops", "encode", "--chunks", "4K,64K", "--threads", "2",
             "--backends", "cuda,auto,x86", "--processes", "3", *HOST_PACE]
    report = measure(*asked, "20", keys=HOST_ROW)
    check(len(report["rows"]) == 6 and len(report["ceilings"]) == 2, f"{len(report['rows'])} rows of processes")
    check_host(report["rows"], processes=3, isal=False)
    for says in ("a device failed while encode 8+3", "a process of 3"):
        measure(*asked, "0", status=1, says=says, keys=HOST_ROW, EC_CUDA_RETRY_S="0",
                EC_FAULTS="cuLaunchKernel:nth=30:CUDA_ERROR_NOT_INITIALIZED", **faults)


def main():
    {"ceph": test_ceph, "cpu": test_cpu, "kernels": test_kernels, "host": test_host}[SUBCOMMAND]()


if __name__ == "__main__":
    main()
