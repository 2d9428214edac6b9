"""What the daemons of a cluster wrote, by the cluster's directory."""

import collections
import re

REASON = re.compile(r"ceph_abort|ceph_assert|Caught signal|corrupt|checksum mismatch|bad crc|\berror\b", re.IGNORECASE)
STACK = re.compile(r" (\d+: |in thread |ceph version )")  # what follows a reason
STAMP = re.compile(r"\s*(-?\d+> )?\d{4}-\d\d-\d\dT\S+ [0-9a-f]+\s+-?\d+ ")  # time, thread and level, in a dump with its place


def _lines(path):
    return path.read_text(errors="replace").splitlines() if path.is_file() else []


def reasons(lines, most=6, frames=10):
    """The last lines that may say why a daemon ended, each text once, and the top of the call stack below it."""
    found = {}
    for at, line in enumerate(lines):
        text = STAMP.sub("", line)
        if REASON.search(text) and not STACK.match(text) and text not in found:
            below = lines[at + 1 : at + 1 + frames]
            end = next((i for i, frame in enumerate(below) if not STACK.match(frame)), len(below))
            found[text] = [line, *below[:end]]
    return [line for block in list(found.values())[-most:] for line in block]


def tails(directory, daemon="*", lines=12):
    """The last lines of one daemon, or of all, and before them what may be its reason to end."""
    shown = []
    for path in sorted((directory / "log").glob(f"{daemon}.[el]*")):
        text = _lines(path)
        if why := reasons(text[:-lines]):
            shown += [f"--- {path.name}, from above", *why]
        shown += [f"--- {path.name}", *text[-lines:]]
    return "\n".join(line[:300] for line in shown)


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


def damage(directory):
    """Errors in the cluster's own log, which a scrub or a read found, and lines of daemons that ended themselves. That there
    is no manager is no error."""
    found = [line for line in _lines(directory / "log" / "cluster.log") if "[ERR]" in line and "MGR_DOWN" not in line]
    return found + [f"{path.stem}: {line.strip()[:300]}" for path in sorted((directory / "log").glob("*.err"))
                    for line in _lines(path)
                    if any(text in line for text in ("Caught signal", "FAILED ceph_assert", "ceph_abort"))]
