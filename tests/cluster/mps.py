"""NVIDIA's Multi-Process Service (MPS) in a folder of its own, for programs that measure with it or take it away."""

import os
import pathlib
import shutil
import signal
import subprocess

CONTROL = "nvidia-cuda-mps-control"
PROGRAMS = "nvidia-cuda-mps-"  # and its servers
ANSWER_S = 3  # for a command; one waits for clients that do not end


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

    def kill_control(self):
        self._kill(CONTROL)

    def _kill(self, program):
        """The processes of this service whose name begins so."""
        named = os.fsencode(self.pipes)
        for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                name = os.path.basename(cmdline.read_bytes().partition(b"\0")[0])
                if name.startswith(program.encode()) and named in cmdline.with_name("environ").read_bytes():
                    os.kill(int(cmdline.parent.name), signal.SIGKILL)
            except OSError:
                continue  # it ended

    def drop_pipes(self):
        shutil.rmtree(self.pipes)

    def stop(self):
        """Whatever is left of it, with clients or without."""
        if self.pipes.exists():
            self.ask("quit")
        self._kill(PROGRAMS)
