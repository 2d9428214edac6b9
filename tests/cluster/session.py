"""A cluster for the time of one program, in a scratch directory: it is ended in order, whatever ends the program."""

import contextlib
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from cluster import librados, logs
from cluster.daemons import Cluster, Failure

SKIPPED = 77
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM)


def skipped(*programs):
    """Whether one of the programs, or librados, is not there; says so."""
    missing = [program for program in programs if not shutil.which(program)]
    try:
        librados.library()
    except OSError:
        missing.append("librados.so.2")
    if missing:
        print(f"skipped, not installed: {', '.join(missing)}")
    return bool(missing)


def interrupt(number, _frame):
    raise Failure("over its time" if number == signal.SIGALRM else f"ended by signal {number}")


def on_signals(handler):
    for number in ENDING:
        signal.signal(number, handler)


@contextlib.contextmanager
def scratch_cluster(prefix, deadline_s=0, parent=None, keep=False):
    """The Cluster, not started. A signal or the deadline raises Failure in the block; at its end every daemon is ended
    and the directory removed, unless it is to be kept."""
    cluster = Cluster(pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent)) / "cluster")
    on_signals(interrupt)
    signal.alarm(deadline_s)
    try:
        yield cluster
    except BaseException:
        print(logs.tails(cluster.dir))
        raise
    finally:
        signal.alarm(0)
        on_signals(signal.SIG_IGN)
        cluster.down(keep)
        if not keep:
            shutil.rmtree(cluster.dir.parent)
        on_signals(signal.SIG_DFL)


def carry_out(prefix, programs, body, deadline_s=0):
    """body(cluster) on a scratch cluster that is not started. The exit status: SKIPPED where one of the programs is missing,
    1 where it fails, after saying why."""
    if skipped(*programs):
        return SKIPPED
    start = time.monotonic()
    try:
        with scratch_cluster(prefix, deadline_s) as cluster:
            body(cluster)
    except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
        print(f"FAILED: {e if isinstance(e, (Failure, OSError)) else repr(e)}")
        return 1
    print(f"{time.monotonic() - start:.0f} s in all")
    return 0
