"""What the daemons of a cluster wrote, by the cluster's directory."""

import collections


def _lines(path):
    return path.read_text(errors="replace").splitlines() if path.is_file() else []


def tail(directory, daemon, lines=15):
    """The last lines of one daemon, as text."""
    paths = [directory / "log" / f"{daemon}.{end}" for end in ("err", "log")]
    return "\n".join(line for path in paths if path.is_file() for line in [f"--- {path}", *_lines(path)[-lines:]])


def show(directory, lines=12):
    """Print the last lines of all."""
    for path in sorted((directory / "log").glob("*")):
        print("\n".join([f"--- {path.name}", *(line[:300] for line in _lines(path)[-lines:])]))


def of_osds(directory):
    """What the OSDs wrote to stderr, over all their lives."""
    return "".join(path.read_text(errors="replace") for path in (directory / "log").glob("osd.*.err"))


def fault_log(directory, osd):
    """Where the OSD's fault driver says what it did."""
    return directory / "log" / f"osd.{osd}.faults"


def faults(directory):
    """How often the fault drivers did what, as `FUNCTION WHAT`."""
    done = (line.split(" ", 3) for path in (directory / "log").glob("osd.*.faults") for line in _lines(path))
    return collections.Counter(f"{function} {what}" for _, function, _, what in done)


def complaints(directory):
    """Errors in the cluster's own log: damage that a scrub or a read found. That there is no manager is none."""
    return [line for line in _lines(directory / "log" / "cluster.log") if "[ERR]" in line and "MGR_DOWN" not in line]


def crashes(directory):
    """Lines of daemons that ended themselves."""
    return [f"{path.stem}: {line.strip()[:300]}" for path in sorted((directory / "log").glob("*.err"))
            for line in _lines(path) if "Caught signal" in line or "FAILED ceph_assert" in line or "ceph_abort" in line]
