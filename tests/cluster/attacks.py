"""What befalls the cluster while its clients work: OSDs killed, started with other settings, purged; deep scrubs.

An attack takes a group of OSDs of which no PG holds more than its m, and begins when all PGs are clean, so that k good
shards of everything exist at any time: whatever is lost then was lost by a fault.
"""

import concurrent.futures
import random
import threading
import time

from cluster import logs
from cluster.pools import NO_OSD


class Attacks:
    def __init__(self, pools, osds, setups, stats, seed, tally, say):
        self.cluster, self.pools, self.osds, self.setups, self.stats = pools.cluster, pools, osds, setups, stats
        self.random = random.Random(f"{seed}/attacks")
        self.tally, self.say = tally, say
        self.next_setups = []
        self.lock = threading.Lock()  # of the setups, which are handed out to several threads when all OSDs start
        self.down = set()

    # --- one OSD

    def kill(self, osd):
        self.stats.read()
        self.cluster.kill_osd(osd)
        self.down.add(osd)
        self.tally.add("kills")

    def start(self, osd, bring_up=None):
        with self.lock:
            self.next_setups = self.next_setups or self.random.sample(self.setups, len(self.setups))
            setup = self.next_setups.pop()
        log = {"EC_FAULTS_LOG": str(logs.fault_log(self.cluster.dir, osd))} if setup.faults else {}
        (bring_up or self.cluster.start_osd)(osd, {**setup.env, **log})
        self.down.discard(osd)
        self.tally.add("starts")
        self.tally.add(f"setup: {setup.name}")

    def purge(self, osd):
        """Lose it for good, and rebuild it from the others."""
        self.stats.read()
        self.start(osd, self.cluster.rebuild_osd)
        self.tally.add("purges")

    def restart_all(self):
        """Start every OSD anew, with settings of its own. Nothing is written yet, so all may be away at once."""
        for osd in range(self.osds):
            self.cluster.kill_osd(osd)
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(self.start, range(self.osds)))
        self.pools.wait_clean()

    # --- attacks

    def group(self):
        """OSDs to attack together: as many as allowed, or fewer."""
        acting = self.pools.acting()
        order = self.random.sample(range(self.osds), self.osds)
        group = set()
        for osd in order[: self.random.randint(1, max(s.losses for s in self.pools.specs.values()))]:
            if self.harmless(group | {osd}, acting):
                group.add(osd)
        return group

    def harmless(self, group, acting):
        """Whether every PG can do without the group."""
        return all(len(group & set(osds)) + osds.count(NO_OSD) <= self.pools.specs[pool].losses
                   for pool, pgs in acting.items() for osds in pgs)

    def attack(self):
        self.cluster.require_alive()
        self.pools.wait_clean()
        group = self.group()
        if self.random.random() < 0.3:  # a scrub that is cut off by what follows
            self.pools.ask_deep_scrub()
        plans = {osd: ["purge"] if self.random.random() < 0.2 else ["kill", "start"] * self.random.choice([1, 1, 2, 3])
                 for osd in sorted(group)}
        self.say(f"attack on OSDs {sorted(group)}: " +
                 "; ".join(f"{osd} {' '.join(plan)}" for osd, plan in plans.items()))
        while plans:
            osd = self.random.choice(sorted(plans))
            getattr(self, plans[osd].pop(0))(osd)
            time.sleep(4 * self.random.random())
            plans = {osd: plan for osd, plan in plans.items() if plan}
        self.cluster.require_alive()

    def deep_scrub(self):
        self.pools.wait_clean()
        self.say("deep scrub")
        self.pools.wait_deep_scrub(self.pools.ask_deep_scrub())
        self.tally.add("deep scrubs")

    def run(self, until):
        """Attacks, and every few a deep scrub, until that time (monotonic)."""
        while time.monotonic() < until:
            for _ in range(self.random.randint(2, 4)):
                if time.monotonic() < until:
                    self.attack()
            self.deep_scrub()

    # --- the end of it

    def everything_up(self):
        for osd in sorted(self.down):
            self.start(osd)
        self.pools.wait_clean()

    def loss_rounds(self):
        """(OSDs to take away, pools that do without them) that between them take each OSD away alone, and then pairs
        from the pools that bear it."""
        every = list(self.pools.specs)
        yield from (({osd}, every) for osd in range(self.osds))
        if wide := [name for name, spec in self.pools.specs.items() if spec.losses >= 2]:
            yield from (({osd, osd + 1}, wide) for osd in range(0, self.osds - 1, 2))
