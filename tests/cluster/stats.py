"""What the plugin counted in the OSDs of a cluster, by `ectool stats`. A process takes its stats with it when it ends, so
they are read before an OSD is killed, too."""

import collections
import json
import os
import shutil
import subprocess


def ectool(plugin_dir):
    """That of the plugin's build, or the one installed; None if there is neither."""
    built = [str(plugin_dir.parent.parent / "bin")] if plugin_dir else []
    return shutil.which("ectool", path=":".join([*built, os.environ.get("PATH", os.defpath)]))


class Stats:
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
