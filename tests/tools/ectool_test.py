"""Runs ectool as an operator does: calibrate, show and explain. Wrong arguments and settings are in
tests/project/bad_input_test.cpp.

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
import time

RATES = {"call_us", "stripe_us", "read_us_per_mb", "written_us_per_mb", "product_us_per_mb"}
CALL = ["k=8", "m=3", "bytes=1M"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


class Ectool:
    """With the calibration in `path` unless it is told otherwise."""

    def __init__(self, program, emulated, path):
        self.program = program
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("EC_CUDA_")}
        self.environment["EC_CUDA_CALIBRATION"] = path
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


def lines(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def check_explain(ectool, there):
    def runs(*arguments, **variables):
        said = lines(ectool.right("explain", *arguments, EC_CUDA_CALIBRATION="none", **variables))
        check(said["costs"] == "built in", said)
        check(said["GPU"] == "emulated device" if there else said["GPU"].startswith("none ("), said)
        return said["runs"]

    cpu = runs(*CALL).split(";")[0]
    check(cpu in ("x86", "isal"), cpu)
    check(runs(*CALL) == f"{cpu}; chunks are pageable, and there are no costs for those on the device", "pageable")
    large = runs(*CALL, "residence=pinned")
    check(large.startswith("cuda; 201." if there else f"{cpu}; there is no GPU. With one it would be cuda: 201."), large)
    for more in (["bytes=4K"], ["bytes=1M", "jobs=16"]):
        said = runs("k=8", "m=3", "residence=pinned", *more)
        check(said.startswith(f"{cpu}; ") and "are predicted" in said, said)
    on_device = runs(*CALL, "residence=device", EC_CUDA_BACKEND="cpu")
    check(on_device == ("cuda; chunks lie on the device, which only the device can address" if there else
                        "nothing; chunks lie on a device, and there is none"), on_device)
    for choice, backend in (("cpu", cpu), ("isal", "isal"), ("reference", "reference")):
        said = runs(*CALL, "residence=pinned", EC_CUDA_BACKEND=choice)
        check(said == f"{backend}; EC_CUDA_BACKEND={choice} says so", said)
    threshold = runs(*CALL, "residence=pinned", EC_CUDA_THRESHOLD="9M")
    check(threshold == f"{cpu}; EC_CUDA_THRESHOLD=9437184 decides, and all sources together have 8388608 bytes",
          threshold)
    queue = ectool.right("explain", *CALL, "jobs=1", EC_CUDA_CALIBRATION="none")
    check(queue.startswith("8+3, chunks of 1048576 bytes, pageable, 1 other call on the device\n"), queue)


def idle_ticks():
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[4])


def check_busy(ectool, path):
    """Refused while every CPU has something else to do. That an idle machine is not refused cannot be tested on a busy one."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        before = idle_ticks()
        time.sleep(0.5)
        idle = (idle_ticks() - before) / os.sysconf("SC_CLK_TCK") / 0.5 / os.cpu_count()
        if idle > 0.7:
            print(f"this machine cannot be made busy from here, {idle:.0%} are idle: that calibrate refuses it is not tested")
            return
        status, out, err = ectool("calibrate")
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    check((status, out) == (1, ""), f"{status} {out}")
    check(re.search(r"^ectool: calibrate: this machine is busy: other programs took \d+ % of the time of its CPUs, and at most "
                    r"10 % is allowed\. Nothing was written\. Measure when it is idle, or add --force$", err, re.MULTILINE), err)
    check(not os.path.exists(path), "written all the same")


def check_calibrate(ectool, path, there):
    check_busy(ectool, path)
    said = ectool.right("calibrate", "--force")
    check(said.endswith(f"written to {path}; processes read it when they start\n"), said)
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
        # In place the GPU's arithmetic is hidden by the link.
        unseen = {"product_us_per_mb"} if there and each is rates[-1] else set()
        check(all(each[name] >= 0.0005 for name in RATES - {"call_us", "stripe_us"} - unseen), f"bytes cost nothing: {each}")
    check(not re.search(r" 0\.000\b", said), said)

    check(ectool.right("calibrate", "--show").startswith(f"costs: {path}\n"), "the file is not found")
    check(lines(ectool.right("explain", *CALL, "residence=pinned"))["costs"] == path, "the file is not used")
    check(ectool.right("calibrate", "--show", EC_CUDA_CALIBRATION="none").startswith("costs: built in\n"), "none")
    refused = ectool.right("calibrate", "--show", EC_CUDA_CALIBRATION="/nowhere")
    check(refused.startswith("ec_cuda: /nowhere is not used, costs are the built-in ones: it cannot be opened"), refused)
    if there:
        check_pageable_costs(ectool, path, found)
    folder = os.path.dirname(path)
    status, _, err = ectool("calibrate", "--force", "--output", folder, LD_LIBRARY_PATH="")
    check((status, err.splitlines()[-1]) == (1, f"ectool: {folder} cannot be written: Is a directory"), err)


def check_pageable_costs(ectool, path, calibration):
    """Pageable chunks on a GPU that is slower than the CPU, and faster."""
    predicted = re.search(r"cpu \(\w+\) +([0-9.]+) us", ectool.right("explain", *CALL))[1]
    edited = copy.deepcopy(calibration)
    for part, runs in ((1.5, False), (0.7, True)):
        edited["device"]["pageable"] = {name: 0 for name in RATES} | {"call_us": part * float(predicted)}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(edited, file)
        said = lines(ectool.right("explain", *CALL))["runs"]
        check(said.startswith("cuda; ") == runs, f"{part}: {said}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ectool")
    parser.add_argument("--emulated")
    options = parser.parse_args()
    there = bool(options.emulated)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "calibration.json")
        ectool = Ectool(options.ectool, options.emulated, path)
        check("explain NAME=VALUE" in ectool.right("--help"), "--help")
        if not there and "GPU: none" not in ectool.right("explain", *CALL, EC_CUDA_CALIBRATION="none"):
            print("this machine has a GPU: what is said without one is not tested")
            return
        check_explain(ectool, there)
        check_calibrate(ectool, path, there)


if __name__ == "__main__":
    main()
