"""What the daemons of a cluster wrote, by the cluster's directory."""

import collections
import re

REASON = re.compile(r"ceph_abort|ceph_assert|Caught signal|corrupt|checksum mismatch|bad crc|\berror\b", re.IGNORECASE)

SHARD_REASON = re.compile(r"(_verify_csum|hash info|hash_info|total_chunk_size|Bad hash|read_error).*")  # of an OSD that scrubs
FAULT = re.compile(r"^\d+ (\w+) \d+ (error \d+|\w+)\n", re.MULTILINE)  # a whole line of a fault driver


def _lines(path):
    return path.read_text(errors="replace").splitlines() if path.is_file() else []


def tails(directory, daemon="*", lines=12):
    """The last lines of one daemon, or of all, and before them what may be its reason to end."""
    shown = []
    for path in sorted((directory / "log").glob(f"{daemon}.[el]*")):
        text = _lines(path)
        if why := [line for line in text[:-lines] if REASON.search(line)]:
            shown += [f"--- {path.name}, from above", *why[-2 * lines :]]
        shown += [f"--- {path.name}", *text[-lines:]]
    return "\n".join(line[:300] for line in shown)


def scrub_reasons(directory, most=12):
    """What scrubs found by the cluster's log, and what each OSD says of a shard that it cannot read or believe, once."""
    shown = [line for line in _lines(directory / "log" / "cluster.log") if "[ERR]" in line][-most:]
    for path in sorted((directory / "log").glob("osd.*.log")):
        reasons = {match[0]: line for line in _lines(path)
                   if "rocksdb:" not in line and (match := SHARD_REASON.search(line))}
        shown += [f"{path.stem}: {line}" for line in list(reasons.values())[-most:]]
    return "\n".join(line[:400] for line in shown)


def of_osds(directory):
    """What the OSDs wrote to stderr, over all their lives."""
    return "".join(path.read_text(errors="replace") for path in (directory / "log").glob("osd.*.err"))


def fault_log(directory, osd):
    """Where the OSD's fault driver says what it did."""
    return directory / "log" / f"osd.{osd}.faults"


def faults(directory):
    """How often the fault drivers did what, as `FUNCTION WHAT`."""
    return collections.Counter(" ".join(match) for path in (directory / "log").glob("osd.*.faults")
                               for match in FAULT.findall(path.read_text(errors="replace")))


def damage(directory):
    """Errors in the cluster's own log, which a scrub or a read found, and lines of daemons that ended themselves."""
    found = [line for line in _lines(directory / "log" / "cluster.log") if "[ERR]" in line]
    return found + [f"{path.stem}: {line.strip()[:300]}" for path in sorted((directory / "log").glob("*.err"))
                    for line in _lines(path)
                    if any(text in line for text in ("Caught signal", "FAILED ceph_assert", "ceph_abort"))]
