"""Pools of a real cluster that must come out alike: the same operations on each, and what their objects must hold."""

import concurrent.futures
import contextlib
import dataclasses
import pathlib
import random
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))  # for programs that import this module first, too

from cluster import options, session, shards  # noqa: E402
from cluster.daemons import Failure, release  # noqa: E402
from cluster.model import Operation, first_difference  # noqa: E402
from cluster.pools import OPTIMISED_FROM, Pools  # noqa: E402

MiB = 1 << 20


def check(holds, message):
    if not holds:
        raise Failure(message)


def carry_out(doc, prefix, body, deadline_s, programs=(), **more):
    """Runs a test as a program, body(cluster, given) on a scratch cluster; the exit status. deadline_s: ahead of ctest's, whose SIGKILL
    would leave daemons and directories behind. programs: that it needs besides daemons. more: its own options."""
    parser = options.parser(doc)
    options.add_cluster_options(parser, is_plugin_needed=True)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the operations")
    for name, words in more.items():
        parser.add_argument(f"--{name}", **words)
    given = parser.parse_args()

    def with_seed(cluster):
        print(f"Ceph {release()}, seed {given.seed}", flush=True)
        body(cluster, given)

    return session.carry_out(prefix, ("ceph-mon", "ceph-osd", *programs), with_seed, deadline_s)


@contextlib.contextmanager
def stage(name):
    start = time.monotonic()
    yield
    print(f"{name}: ok, {time.monotonic() - start:.1f} s", flush=True)


class Form:
    """Pools that must come out alike, and what their objects must hold."""

    def __init__(self, spec, pools, seed):
        self.spec, self.pools = spec, pools  # {name: PoolSpec}
        self.random = random.Random(f"{seed}/{spec.name}")
        self.expected = {}

    @property
    def osds(self):
        return list(range(self.spec.shards))

    def bears(self, lost):
        return len(lost & set(self.osds)) <= self.spec.losses

    def _do(self, done, name, *call):
        operation = Operation(*call)
        self.expected[name] = operation.apply(self.expected.get(name))
        done.append((name, operation))

    def puts(self):
        """Operations that make the objects: around the edges of chunks and stripes, and some large ones."""
        unit, width, done = self.spec.stripe_unit, self.spec.stripe_width, []
        for size in sorted({0, 1, unit - 1, unit, width, width + 1, 2 * width + unit // 2 + 77, 3 * width, MiB + 4097}):
            self._do(done, f"size{size}", "write_full", self.random.randbytes(size))
        self._do(done, "zeros", "write_full", bytes(2 * width))
        self._do(done, "hole", "write_full", self.random.randbytes(unit))
        return done

    def changes(self, count):
        """Operations that alter the objects; of a pool without overwrites new objects, and whole stripes appended."""
        done = []
        for number in range(count):
            name = self.random.choice(sorted(self.expected))
            if self.spec.overwrites:
                self._do(done, name, *self._change(len(self.expected[name])))
            elif len(self.expected[name]) % self.spec.stripe_width == 0 and number % 2:
                self._do(done, name, "append", self.random.randbytes(self.spec.stripe_width * self.random.randint(1, 3)))
            else:
                self._do(done, name, "write_full", self.random.randbytes(self.random.randrange(1, 3 * self.spec.stripe_width)))
        return done

    def _change(self, size):
        draw, unit, width = self.random, self.spec.stripe_unit, self.spec.stripe_width
        grain = draw.choice([1, 4096, unit, width])  # of the place
        length = draw.choice([1, 100, 4096, 5000, unit, unit + 1, width, width + 4096, draw.randrange(1, 3 * width)])
        length = min(length, MiB)
        inside = draw.randrange(size + 1) // grain * grain
        kind = draw.choices(["write", "zeros", "zero", "append", "beyond", "cut", "stretch"], [10, 2, 2, 3, 2, 2, 1])[0]
        beyond = size + draw.choice([1, 4096, unit + 5, 2 * width])
        return {
            "write": ("write", draw.randbytes(length), inside),
            "zeros": ("write", bytes(length), inside),
            "zero": ("zero", inside, max(1, min(length, size - inside))) if inside < size else ("append", b"x"),
            "append": ("append", draw.randbytes(length)),
            "beyond": ("write", draw.randbytes(length), beyond // grain * grain if beyond // grain * grain > size else beyond),
            "cut": ("trunc", inside),
            "stretch": ("trunc", beyond),
        }[kind]


class ClusterTest:
    """Forms of pools in a cluster, each with one PG on the OSDs 0, 1, .., whose shard s lies on OSD s."""

    def __init__(self, cluster, forms):
        self.cluster, self.forms, self.pools = cluster, forms, Pools(cluster)
        self.others, self.env_of_others = set(), None  # OSDs that start with this environment
        self.threads = concurrent.futures.ThreadPoolExecutor(max_workers=4)
        self.io = {}

    def make_pools(self, forms=None):
        made = [(form, name) for form in forms or self.forms for name in form.pools]
        list(self.threads.map(self._make_pool, made))
        homes = {self.pools.pg_ids([name])[0]: form.osds for form, name in made}
        self.pools.wait("PGs where they were put", lambda pgid, answer: answer["acting"] == homes[pgid],
                        pools=[name for _, name in made])
        self.pools.wait_clean()
        self.io |= {name: self.cluster.rados.pool(name) for _, name in made}

    def _make_pool(self, of):
        form, name = of
        self.pools.make(form.pools[name], 1)
        self.cluster.mon("osd pg-upmap", pgid=self.pools.pg_ids([name])[0], id=form.osds)

    # --- objects

    def bearing(self, lost):
        return [form for form in self.forms if form.bears(lost)]

    def send(self, operations):
        """{form: its operations}; each pool gets them in order."""
        self.send_to_pools({name: wanted for form, wanted in operations.items() for name in form.pools})

    def send_to_pools(self, operations):
        """{pool: its operations}"""

        def send_to(item):
            name, wanted = item
            for number, (target, operation) in enumerate(wanted):
                try:
                    operation.send(self.io[name], target)
                except OSError as e:
                    raise Failure(f"{name}/{target}, operation {number}: {operation.call}: {e}") from None

        list(self.threads.map(send_to, operations.items()))

    def put(self):
        self.send({form: form.puts() for form in self.forms})

    def change(self, count, lost=frozenset()):
        self.send({form: form.changes(count) for form in self.bearing(lost)})
        self.verify(lost)

    def verify(self, lost=frozenset(), forms=None):
        def verify_pool(item):
            form, name = item
            for target, content in form.expected.items():
                got = self.io[name].read(target, len(content) + 1)
                check(got == content, f"{name}/{target}: {got != content and first_difference(got, content)}")

        list(self.threads.map(verify_pool, [(form, name) for form in forms or self.bearing(lost) for name in form.pools]))

    # --- OSDs

    def without(self, osds, changes=6):
        """One after the other dies, and all come back."""
        lost = set()
        for osd in osds:
            lost.add(osd)
            with stage(f"without OSDs {sorted(lost)}"):
                self.cluster.kill_osd(osd)
                self.pools.wait_without(lost, [name for form in self.bearing(lost) for name in form.pools])
                self.change(changes, lost)
        with stage("all back"):
            self.start(lost)
            self.verify()

    def start(self, osds):
        for those, env in ((set(osds) - self.others, None), (set(osds) & self.others, self.env_of_others)):
            if those:
                self.cluster.start_osds(those, env)
        self.pools.wait_clean()

    def empty(self, osd):
        """A new disk under the old id."""
        self.cluster.kill_osd(osd)
        self.cluster.wipe_osd(osd)
        self.start([osd])

    # --- shards

    def shards_on_disk(self, damaged="", of_osd=0):
        """{(pool, OSD): what `of_pg` of cluster/shards.py gives}. Ends every OSD. A bit of the object "hole" of the pool
        `damaged` is flipped there before, on one OSD."""
        pgs = {name: self.pools.pg_ids([name])[0] for form in self.forms for name in form.pools}
        places = {osd: [name for form in self.forms if osd in form.osds for name in form.pools]
                  for osd in range(max(form.spec.shards for form in self.forms))}
        self.cluster.disconnect()
        self.cluster.stop([name for name in self.cluster.daemons() if name.startswith("osd.")])
        if damaged:
            shards.flip_bit(self.cluster, of_osd, f"{pgs[damaged]}s{of_osd}", "hole")

        def read_osd(osd):  # its store is for one process at a time
            return {(name, osd): shards.of_pg(self.cluster, osd, f"{pgs[name]}s{osd}") for name in places[osd]}

        return {key: value for part in self.threads.map(read_osd, places) for key, value in part.items()}

    @staticmethod
    def compare(found, form, name, twin, twins_shard=lambda shard: shard):
        """That every shard of one pool equals its twin's. Returns how many."""
        for osd in form.osds:
            ours, theirs = found[name, osd], found[twin, twins_shard(osd)]
            for target in form.expected:
                check(target in ours and target in theirs, f"{name}/{target}: no shard {osd} on disk of {name} or {twin}")
                content, sums = theirs[target]
                expected = content, sums and shards.sums_in_order(sums, twins_shard)
                for got, wanted, what in zip(ours[target], expected, ("", " (sums)")):
                    check(got == wanted, f"{name}/{target}, shard {osd}{what}, against {twin}: "
                                         f"{got != wanted and first_difference(got, wanted)}")
        return len(form.osds) * len(form.expected)


class TwinTest(ClusterTest):
    """A pool a form, whose OSDs change. In the end each gets a twin with the same operations, made by OSDs as they were."""

    def __init__(self, cluster, given, specs, optimised):
        """optimised: the names of those that are so where Ceph can have it."""
        specs = [dataclasses.replace(spec, optimised=release() >= OPTIMISED_FROM and spec.name in optimised) for spec in specs]
        super().__init__(cluster, [Form(spec, {spec.name: spec}, given.seed) for spec in specs])
        self.sent = {spec.name: [] for spec in specs}
        self.plugin, self.osd_env = given.plugin_dir / "libec_cuda.so", dict(given.osd_env)

    def send(self, operations):
        for form, wanted in operations.items():
            self.sent[form.spec.name] += wanted
        super().send(operations)

    def compare_with_twins(self):
        """Every shard on the disks. Ends the OSDs. Returns how many were equal."""
        made = [Form(form.spec, {f"{form.spec.name}-twin": dataclasses.replace(form.spec, name=f"{form.spec.name}-twin")}, 0)
                for form in self.forms]
        self.make_pools(made)
        self.send_to_pools({f"{name}-twin": wanted for name, wanted in self.sent.items()})
        for form, twin in zip(self.forms, made):
            form.pools |= twin.pools
        self.verify()
        found = self.shards_on_disk()
        return sum(self.compare(found, form, form.spec.name, f"{form.spec.name}-twin") for form in self.forms)

    @classmethod
    def main(cls, doc, prefix):
        """Runs the test as a program; its exit status."""
        return carry_out(doc, prefix, lambda cluster, given: cls(cluster, given).run(), 1080, ["ceph-objectstore-tool"])
