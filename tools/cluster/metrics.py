"""What the plugin counted in the OSDs of a cluster, from the files that EC_CUDA_METRICS has them write."""

import collections
import re

from cluster.moods import knows

INTERVAL_S = 1


def environment(plugin_file, directory):
    """For daemons whose counters are wanted; empty where the plugin has none. A process that is killed leaves what it
    last wrote."""
    if not knows(plugin_file, "EC_CUDA_METRICS"):
        return {}
    return {"EC_CUDA_METRICS": f"{directory}/{{pid}}.prom", "EC_CUDA_METRICS_INTERVAL_S": str(INTERVAL_S)}


def sums(directory, metric, *labels):
    """The metric's values by these labels, over all processes; nothing of what is 0."""
    found = collections.Counter()
    for path in directory.glob("*.prom"):
        for texts, value in re.findall(rf"^{metric}\{{(.*)\}} ([\d.e+]+)$", path.read_text(), re.MULTILINE):
            named = dict(re.findall(r'(\w+)="([^"]*)"', texts))
            found[" ".join(named.get(label, "") for label in labels)] += int(float(value))
    return dict(sorted(item for item in found.items() if item[1] != 0))
