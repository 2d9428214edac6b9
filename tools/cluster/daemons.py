"""A cluster of tools/ceph-cluster, for a program that drives it: its verbs, its pools, the state of its PGs.

No manager is needed: PGs are asked for their state through the OSDs that lead them.
"""

import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import time

from cluster.librados import Rados

TOOL = pathlib.Path(__file__).resolve().parents[1] / "ceph-cluster"
NO_OSD = 0x7FFFFFFF  # CRUSH_ITEM_NONE in an acting set
TOOL_TIMEOUT_S = 300
# A scrub must come when it is asked for, however busy the machine; and what it finds must stay.
OSD_OPTIONS = {"osd_scrub_auto_repair": "false", "osd_scrub_load_threshold": "1000000",
               "osd_scrub_during_recovery": "true"}


class Failure(Exception):
    """The cluster does not do what it must, in words."""


@dataclasses.dataclass(frozen=True)
class PoolSpec:
    name: str
    k: int
    m: int
    technique: str
    stripe_unit: int
    overwrites: bool

    @property
    def stripe_width(self):
        return self.k * self.stripe_unit


class Cluster:
    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.conf = self.dir / "ceph.conf"
        self.rados = None
        self.pools = {}  # name -> (id, pg_num)

    # --- its verbs

    def tool(self, verb, *args, env=None):
        """A verb of ceph-cluster; `env` is what the daemons that it starts get on top of our environment."""
        done = subprocess.run([TOOL, verb, "--dir", self.dir, *map(str, args)], stdin=subprocess.DEVNULL, text=True,
                              errors="replace", capture_output=True, env={**os.environ, **(env or {})},
                              timeout=TOOL_TIMEOUT_S)
        if done.returncode != 0:
            raise Failure(f"ceph-cluster {verb} {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout

    def up(self, osds, plugin_dir, osd_env=(), store="bluestore"):
        self.tool("up", "--keep", "--no-mgr", "--osds", osds, "--store", store,
                  *(["--plugin-dir", plugin_dir] if plugin_dir else []),
                  *(word for setting in osd_env for word in ("--osd-env", setting)))
        self.rados = Rados(self.conf)
        for name, value in OSD_OPTIONS.items():
            self.rados.mon("config set", who="osd", name=name, value=value)

    def down(self, keep=False):
        if self.rados:
            self.rados.close()
            self.rados = None
        if self.dir.exists():
            self.tool("down", *(["--keep"] if keep else []))

    def _status(self):
        return subprocess.run([TOOL, "status", "--dir", self.dir], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=TOOL_TIMEOUT_S).stdout

    def dead(self):
        """Daemons that do not run."""
        return re.findall(r"^(\S+): not running$", self._status(), re.MULTILINE)

    # --- pools

    def make_pool(self, spec, plugin, pg_num):
        self.rados.mon("osd erasure-code-profile set", name=spec.name, profile=[
            f"plugin={plugin}", f"k={spec.k}", f"m={spec.m}", f"technique={spec.technique}",
            f"stripe_unit={spec.stripe_unit}", "crush-failure-domain=osd"])
        self.rados.mon("osd pool create", pool=spec.name, pg_num=pg_num, pgp_num=pg_num, pool_type="erasure",
                       erasure_code_profile=spec.name)
        self.rados.mon("osd pool set", pool=spec.name, var="min_size", val=str(spec.k))
        if spec.overwrites:
            self.rados.mon("osd pool set", pool=spec.name, var="allow_ec_overwrites", val="true")
        made = next(p for p in self.rados.mon_json("osd dump")["pools"] if p["pool_name"] == spec.name)
        if made["stripe_width"] != spec.stripe_width:
            raise Failure(f"pool {spec.name}: stripe width {made['stripe_width']}, not {spec.stripe_width}")
        self.pools[spec.name] = (made["pool"], pg_num)

    def pg_ids(self, pools=None):
        return [f"{number:x}.{pg:x}" for name, (number, pg_num) in self.pools.items()
                if pools is None or name in pools for pg in range(pg_num)]

    def query(self, pgid):
        """What the PG's leader says, or None while it has none."""
        try:
            return json.loads(self.rados.pg(pgid, "query"))
        except (OSError, ValueError):
            return None

    def _wait(self, what, late_pgs, timeout_s, pause_s=0.3):
        deadline = time.monotonic() + timeout_s
        while True:
            self.rados.latest_map()
            if not (late := late_pgs()):
                return
            if time.monotonic() > deadline:
                raise Failure(f"{what}: not in {timeout_s} s: {', '.join(late)}")
            time.sleep(pause_s)

    def wait_pgs(self, what, ready, timeout_s=300, pools=None):
        """Wait until `ready(answer)` for every PG, by answers newer than the last change of any OSD."""

        def late():
            osds = self.rados.mon_json("osd dump")["osds"]
            since = max(max(o["up_from"], o["down_at"]) for o in osds)
            found = []
            for pgid in self.pg_ids(pools):
                answer = self.query(pgid)
                if answer is None:
                    found.append(f"{pgid} does not answer")
                elif answer["epoch"] < since or not ready(answer):
                    found.append(f"{pgid} {answer['state']} {answer['acting']}")
            return found

        self._wait(what, late, timeout_s)

    def wait_clean(self, timeout_s=300):
        """Until each PG has all of its shards on living OSDs, recovered."""

        def clean(answer):
            states = set(answer["state"].split("+"))
            return ({"active", "clean"} <= states and not states & {"remapped", "degraded", "recovering"}
                    and answer["acting"] == answer["up"] and NO_OSD not in answer["acting"])

        self.wait_pgs("PGs active+clean", clean, timeout_s)

    def wait_without(self, lost, pools, timeout_s=120):
        """Until each PG of the pools serves without the lost OSDs."""
        self.wait_pgs(f"PGs active without OSDs {sorted(lost)}",
                      lambda answer: "active" in answer["state"].split("+") and not lost & set(answer["acting"]),
                      timeout_s, pools)

    def acting(self):
        """OSDs of each PG, by pool name."""
        return {name: [self.query(pgid)["acting"] for pgid in self.pg_ids([name])] for name in self.pools}

    def ask_deep_scrub(self):
        """Stamps of the PGs before the scrub that is now due, for wait_deep_scrub."""
        stamps = {}
        for pgid in self.pg_ids():
            # Before it is asked: a small PG may be done before the next question.
            stamps[pgid] = self.query(pgid)["info"]["history"]["last_deep_scrub_stamp"]
            self.rados.pg(pgid, "deep_scrub")
            self.rados.pg(pgid, "scrub")  # the one makes the next scrub deep, the other makes it due
        return stamps

    def wait_deep_scrub(self, stamps, timeout_s=300):
        """Wait until all are scrubbed. Raises Failure for what a scrub found. Returns how many PGs."""
        def late():
            found = []
            for pgid, before in stamps.items():
                answer = self.query(pgid)
                if answer is None or answer["info"]["history"]["last_deep_scrub_stamp"] == before:
                    found.append(f"{pgid} {answer and answer['state']}")
            return found

        self._wait("deep scrub of every PG", late, timeout_s)
        self.check_scrubs()
        return len(stamps)

    def check_scrubs(self):
        for pgid in self.pg_ids():
            if (answer := self.query(pgid)) is None:
                continue
            sums = answer["info"]["stats"]["stat_sum"]
            errors = {name: sums[name] for name in sums if "scrub_errors" in name and sums[name] != 0}
            if errors or "inconsistent" in answer["state"]:
                raise Failure(f"PG {pgid} {answer['state']}: {errors}")

    # --- logs

    def fault_log(self, osd):
        """Where the OSD's fault driver says what it did."""
        return self.dir / "log" / f"osd.{osd}.faults"

    def faults(self):
        """How often the fault drivers did what, as `FUNCTION WHAT`."""
        count = collections.Counter()
        for path in (self.dir / "log").glob("osd.*.faults"):
            for line in path.read_text().splitlines():
                _, function, _, what = line.split(" ", 3)
                count[f"{function} {what}"] += 1
        return count

    def log_text(self):
        """What the OSDs wrote to stderr, over all their lives."""
        return "".join(path.read_text(errors="replace") for path in (self.dir / "log").glob("osd.*.err"))

    def complaints(self):
        """Errors in the cluster's own log: damage that a scrub or a read found. That there is no manager is none."""
        log = self.dir / "log" / "cluster.log"
        return [line for line in (log.read_text(errors="replace").splitlines() if log.is_file() else [])
                if "[ERR]" in line and "MGR_DOWN" not in line]

    def crashes(self):
        """Lines of daemons that ended themselves."""
        return [f"{path.stem}: {line.strip()[:300]}" for path in sorted((self.dir / "log").glob("*.err"))
                for line in path.read_text(errors="replace").splitlines()
                if "Caught signal" in line or "FAILED ceph_assert" in line or "ceph_abort" in line]
