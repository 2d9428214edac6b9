"""What `ectool` says of the daemons of a cluster."""

import collections
import json
import os
import shutil
import subprocess

from cluster.daemons import Failure, wait_until


def ectool(plugin_dir):
    """That of the plugin's build, or the one installed; None if there is neither."""
    built = [str(plugin_dir.parent.parent / "bin")] if plugin_dir else []
    return shutil.which("ectool", path=":".join([*built, os.environ.get("PATH", os.defpath)]))


def doctor(cluster, plugin_dir, *arguments):
    """What `ectool doctor` says of each daemon, by its name."""
    program, daemons = ectool(plugin_dir), {}
    if not program:
        raise Failure("no ectool: neither beside the plugin nor installed")

    def left_out():
        said = json.loads(subprocess.run([program, "doctor", "--json", *arguments], stdout=subprocess.PIPE, text=True).stdout)
        by_pid = {daemon["pid"]: daemon for daemon in said["daemons"]}
        daemons.update({name: by_pid.get(cluster.pid(name)) for name in cluster.daemons()})
        return [name for name, daemon in daemons.items() if not daemon]

    # It takes 10 s at most, and a busy host's daemons may not all have answered by then.
    wait_until("ectool doctor", left_out, 120)
    return daemons


class Stats:
    """What the plugin counted in the OSDs. A process takes its stats with it when it ends, so they are read before an OSD is
    killed, too."""

    def __init__(self, cluster, plugin_dir):
        self.cluster, self.ectool = cluster, ectool(plugin_dir)
        self.seen = {}  # pid -> what it last counted

    def read(self):
        """Take down what the OSDs that run have counted so far."""
        if self.ectool:
            done = subprocess.run([self.ectool, "stats", "--json"], stdin=subprocess.DEVNULL, text=True, capture_output=True)
            ours = set(self.cluster.osd_pids())
            processes = json.loads(done.stdout)["processes"] if done.returncode == 0 else []
            self.seen |= {process["pid"]: process for process in processes if process["pid"] in ours}

    def by_backend(self, numbers):
        """Sums over all processes of what numbers(row) gives, a dict, by `BACKEND KEY`; nothing of what is 0."""
        found = collections.Counter()
        for process in self.seen.values():
            for row in process["rows"]:
                found.update({f"{row['backend']} {key}": number for key, number in numbers(row).items()})
        return dict(sorted((+found).items()))
