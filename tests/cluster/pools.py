"""Erasure-coded pools of a cluster, and the state of their PGs.

No manager is needed: PGs are asked for their state through the OSDs that lead them.
"""

import dataclasses
import errno
import json
import shutil
import subprocess
import time

from cluster import logs
from cluster.daemons import Failure, wait_until

OPTIMISED_FROM = 20  # release of Ceph
ANSWER_TIMEOUT_S = 120
NO_OSD = 0x7FFFFFFF  # CRUSH_ITEM_NONE in an acting set


@dataclasses.dataclass(frozen=True)
class PoolSpec:
    name: str
    k: int
    m: int
    technique: str
    stripe_unit: int
    overwrites: bool
    optimised: bool = False  # as pools of Ceph 20 can be
    mapping: str = ""  # of the profile
    plugin: str = "cuda"
    packetsize: int = 0  # of some techniques of jerasure
    locality: int = 0  # l of the plugin lrc, which adds a shard to every so many

    @property
    def stripe_width(self):
        return self.k * self.stripe_unit

    @property
    def losses(self):
        """Shards that a PG does without. Of lrc Ceph 16 to 20 does not serve every PG that could be decoded, whatever is inside:
        k=4 m=2 l=3 stays down without shards 1 and 3."""
        return 1 if self.locality else self.m

    @property
    def shards(self):
        return self.k + self.m + ((self.k + self.m) // self.locality if self.locality else 0)


class Pools:
    """The pools of one caller, who alone changes them. Its threads may make pools at the same time."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.specs, self.numbers = {}, {}  # by name: PoolSpec, (id, pg_num)

    def make(self, spec, pg_num):
        mon = self.cluster.mon
        mon("osd erasure-code-profile set", name=spec.name, profile=[
            f"plugin={spec.plugin}", f"k={spec.k}", f"m={spec.m}", f"stripe_unit={spec.stripe_unit}",
            "crush-failure-domain=osd", *(f"{key}={value}" for key, value in (
                ("technique", spec.technique), ("mapping", spec.mapping), ("packetsize", spec.packetsize), ("l", spec.locality)) if value)])
        mon("osd pool create", pool=spec.name, pg_num=pg_num, pgp_num=pg_num, pool_type="erasure",
            erasure_code_profile=spec.name)
        mon("osd pool set", pool=spec.name, var="min_size", val=str(spec.k))
        for wanted, flag in ((spec.overwrites, "allow_ec_overwrites"), (spec.optimised, "allow_ec_optimizations")):
            if wanted:
                mon("osd pool set", pool=spec.name, var=flag, val="true")
        made = next(p for p in self.cluster.mon_json("osd dump")["pools"] if p["pool_name"] == spec.name)
        if made["stripe_width"] != spec.stripe_width:
            raise Failure(f"pool {spec.name}: stripe width {made['stripe_width']}, not {spec.stripe_width}")
        self.specs[spec.name], self.numbers[spec.name] = spec, (made["pool"], pg_num)

    def pg_ids(self, pools=None):
        return [f"{number}.{pg:x}" for name, (number, pg_num) in self.numbers.copy().items()
                if pools is None or name in pools for pg in range(pg_num)]

    def query(self, pgid):
        """What the PG's leader says, or None while it has none."""
        try:
            return json.loads(self.cluster.rados.pg(pgid, "query"))
        except (OSError, ValueError):
            return None

    def answer(self, pgid):
        """What the PG's leader says, who is asked again until there is an answer."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while (answer := self.query(pgid)) is None:
            if time.monotonic() > deadline:
                raise Failure(f"PG {pgid} does not answer, not within {ANSWER_TIMEOUT_S} s")
            time.sleep(0.3)
        return answer

    def acting(self):
        """OSDs of each PG, by pool name."""
        return {name: [self.answer(pgid)["acting"] for pgid in self.pg_ids([name])] for name in self.numbers}

    def wait(self, what, ready, timeout_s=300, pools=None):
        """Until ready(pgid, answer) for every PG, by answers newer than the last change of any OSD."""

        def late():
            self.cluster.require_alive()
            self.cluster.rados.latest_map()
            osds = self.cluster.mon_json("osd dump")["osds"]
            since = max(max(o["up_from"], o["down_at"]) for o in osds)
            answers = {pgid: self.query(pgid) for pgid in self.pg_ids(pools)}
            return [f"{pgid} {answer['state']} {answer['acting']}" if answer else f"{pgid} does not answer"
                    for pgid, answer in answers.items()
                    if answer is None or answer["epoch"] < since or not ready(pgid, answer)]

        wait_until(what, late, timeout_s)

    def wait_clean(self):
        """Until each PG has all of its shards on living OSDs, recovered."""

        def clean(_pgid, answer):
            states = set(answer["state"].split("+"))
            return ({"active", "clean"} <= states and not states & {"remapped", "degraded", "recovering"}
                    and answer["acting"] == answer["up"] and NO_OSD not in answer["acting"])

        self.wait("PGs active+clean", clean)

    def wait_without(self, lost, pools=None):
        """Until each PG of the pools serves without the lost OSDs."""
        self.wait(f"PGs active without OSDs {sorted(lost)}",
                  lambda _pgid, answer: "active" in answer["state"].split("+") and not lost & set(answer["acting"]),
                  120, pools)

    # --- scrubs

    def ask_deep_scrub(self):
        """Stamps of the PGs before the scrub that is now due, for wait_deep_scrub."""
        stamps = {}
        for pgid in self.pg_ids():
            # Before it is asked: a small PG may be done before the next question.
            stamps[pgid] = self.answer(pgid)["info"]["history"]["last_deep_scrub_stamp"]
            try:
                self.cluster.rados.pg(pgid, "deep-scrub")
            except OSError as e:  # before Ceph 20 one command makes the next scrub deep, another makes it due
                if e.errno != errno.EINVAL:
                    raise
                self.cluster.rados.pg(pgid, "deep_scrub")
                self.cluster.rados.pg(pgid, "scrub")
        return stamps

    def wait_deep_scrub(self, stamps):
        """Until all are scrubbed. Raises Failure for what a scrub found."""
        self.wait("deep scrub of every PG",
                  # Later, and not another: what is asked for sets the stamp back, so that a scrub is due.
                  lambda pgid, answer: answer["info"]["history"]["last_deep_scrub_stamp"] > stamps[pgid])
        self.check_scrubs()

    def check_scrubs(self):
        """Raises Failure for what a scrub found, with all that says why."""
        for pgid in self.pg_ids():
            answer = self.answer(pgid)
            sums = answer["info"]["stats"]["stat_sum"]
            errors = {name: sums[name] for name in sums if "scrub_errors" in name and sums[name] != 0}
            if errors or "inconsistent" in answer["state"]:
                raise Failure(f"PG {pgid} {answer['state']}: {errors}\n{self.inconsistent(pgid)}\n"
                              f"{logs.scrub_reasons(self.cluster.dir)}")

    def inconsistent(self, pgid):
        """The PG's objects that a scrub complained of, as `rados` says; it may not be installed."""
        if not shutil.which("rados"):
            return "no rados here, which would list the objects"
        listed = subprocess.run(["timeout", "60", "rados", "list-inconsistent-obj", pgid], env=self.cluster.env, text=True,
                                capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return (listed.stdout + listed.stderr).strip()[:4000]
