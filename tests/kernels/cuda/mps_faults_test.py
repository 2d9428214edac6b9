"""Processes code on one GPU through NVIDIA's Multi-Process Service (MPS) while clients, the server and its directory go.

Each host call must be right and end in time, whatever happens; what becomes of the device in each process is printed, and a
process that starts under a new service must have the GPU. On a machine without a GPU, with --emulated, no service runs and only
processes are killed: that tests this program.

mps_faults_test.py MPS_CHILD [--preload FILE] [--emulated DIRECTORY]
Exit status: 0 all calls right; 1 not; 77 skipped: no GPU, or no nvidia-cuda-mps-control.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KiB = 1 << 10
DEADLINE_S, RETRY_S = 1, 1
LONGEST_MS = 1000 * DEADLINE_S + 1500  # what the CPU takes then, and a busy machine; without a GPU 8 times as much
CONTROL = "nvidia-cuda-mps-control"
PROGRAMS = "nvidia-cuda-mps-"  # and its servers
ANSWER_S = 3  # for a command; one waits for clients that do not end
STATES = ("none", "coming up", "up", "latched")


failures = []


def check(condition, what):
    """What follows is of interest even so."""
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}")


def missing():
    """Why there can be no service here; empty if there can."""
    if shutil.which(CONTROL) is None:
        return f"no {CONTROL}"
    return "" if pathlib.Path("/dev/nvidiactl").exists() else "no GPU"


class Mps:
    """One service at a time. Its clients are the processes with `environment`; they must run as this program's user."""

    def __init__(self, folder):
        self.pipes, self.log = pathlib.Path(folder) / "pipes", pathlib.Path(folder) / "log"
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.log)}
        self._env = {**os.environ, **self.environment}

    def start(self):
        for directory in (self.pipes, self.log):
            directory.mkdir(parents=True, exist_ok=True)
        subprocess.run([CONTROL, "-d"], env=self._env, check=True, stdout=subprocess.DEVNULL)

    def ask(self, command):
        """What the control daemon answers; nothing if it does not in time."""
        try:
            return subprocess.run([CONTROL], input=command + "\n", text=True, env=self._env, check=False,
                                  timeout=ANSWER_S, stdout=subprocess.PIPE).stdout
        except subprocess.TimeoutExpired:
            return ""

    def kill_server(self):
        for pid in self.ask("get_server_list").split():
            os.kill(int(pid), signal.SIGKILL)

    def kill(self, program):
        """The processes of this service whose name begins so."""
        named = os.fsencode(self.pipes)
        for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                name = os.path.basename(cmdline.read_bytes().partition(b"\0")[0])
                if name.startswith(program.encode()) and named in cmdline.with_name("environ").read_bytes():
                    os.kill(int(cmdline.parent.name), signal.SIGKILL)
            except OSError:
                continue  # it ended

    def stop(self):
        """Whatever is left of it, with clients or without."""
        if self.pipes.exists():
            self.ask("quit")
        self.kill(PROGRAMS)


class Child:
    def __init__(self, program, number, chunk_bytes, environment):
        self.name = f"p{number}"
        self.process = subprocess.Popen([program, str(chunk_bytes)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def tell(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()


class Run:
    def __init__(self, options, folder):
        self.options, self.children, self.mps = options, [], Mps(folder)
        self.environment = {**os.environ, **self.mps.environment, "EC_CUDA_DEADLINE_MS": str(1000 * DEADLINE_S),
                            "EC_CUDA_RETRY_S": str(RETRY_S), "EC_CUDA_PINNED_BYTES": "256M",
                            "EC_CUDA_VALIDATE": "off"}
        if options.emulated:
            self.environment["LD_LIBRARY_PATH"] = options.emulated

    def start(self, count=1):
        preload = {"LD_PRELOAD": self.options.preload} if self.options.preload else {}
        for _ in range(count):
            number = len(self.children)
            chunk_bytes = KiB * (32 if self.options.emulated else 1024 if number % 2 == 0 else 64)
            self.children.append(Child(self.options.mps_child, number, chunk_bytes, {**self.environment, **preload}))

    def living(self):
        return [child for child in self.children if child.process.poll() is None]

    def look(self, what, seconds=4.0):
        """Has them code for a while, then says what became of each."""
        time.sleep(seconds)
        print(f"{what}:")
        for child in self.living():
            said = child.tell("say")
            print(f"  {child.name}: {STATES[said['state']]}, up {said['starts']} times, latched {said['latches']}, failed to come up "
                  f"{said['failed_starts']}, MPS {said['mps']}; {said['calls']} calls, {said['on_gpu']} of them on the GPU, {said['hung']} "
                  f"hung, the longest {said['longest_ms']} ms", flush=True)
            check(said["wrong"] == 0, f"{child.name} had {said['wrong']} wrong results")
            check(said["spoilt"] == 0, f"{child.name} had {said['spoilt']} times sources that somebody had written to")
            check(said["calls"] > 0, f"{child.name} stands still")
            check(said["longest_ms"] <= LONGEST_MS * (8 if self.options.emulated else 1), f"{child.name}: a call took {said['longest_ms']} ms")
        return self.living()


EVENTS = {"a client is killed": lambda run: run.children[0].kill(),
          "a client has a kernel write to a wrong address": lambda run: run.children[0].tell("fault"),
          "the server is killed": lambda run: run.mps.kill_server(),
          "the control daemon is killed": lambda run: run.mps.kill(CONTROL),
          "the pipe directory is gone": lambda run: shutil.rmtree(run.mps.pipes)}


def fire(options, what):
    print(f"--- {what}")
    with tempfile.TemporaryDirectory(prefix="ec_mps_") as folder:
        run = Run(options, pathlib.Path(folder))
        try:
            if not options.emulated:
                run.mps.start()
            run.start(4)
            run.look("all code", 2)
            EVENTS[what](run)
            run.look("after it", 3)
            run.start(1)
            run.look("one more came", 2)
            for child in run.living()[:-1]:
                child.kill()
            run.look("the others have ended", 2)
            if not options.emulated:
                run.living()[0].kill()
                run.mps.stop()
                run.mps.start()
                run.start(1)
                last, = run.look("a new service, and one that started under it", 2)
                said = last.tell("say")
                check(said["state"] == STATES.index("up") and said["mps"], f"{what}: no GPU under a new service: {said}")
        finally:
            for child in run.living():
                child.kill()
            if not options.emulated:
                run.mps.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mps_child")
    parser.add_argument("--preload")
    parser.add_argument("--emulated")
    options = parser.parse_args()
    if not options.emulated and (why := missing()):
        print(f"skipped: {why}")
        return 77
    for what in list(EVENTS)[:1] if options.emulated else EVENTS:
        fire(options, what)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
