"""One client of the cluster under fire: it alone writes its objects, and knows what each must hold."""

import collections
import errno
import random
import threading

from cluster import model

KiB, MiB = 1 << 10, 1 << 20
READ_AT_MOST = 64 * MiB  # longer than any object
READ_TRIES = 20


class Tally:
    """Counts of many clients."""

    def __init__(self):
        self._lock = threading.Lock()
        self.count = collections.Counter()
        self.mismatches = []

    def add(self, name):
        with self._lock:
            self.count[name] += 1

    def mismatch(self, text):
        with self._lock:
            self.mismatches.append(text)
        print(f"MISMATCH {text}", flush=True)


class Client:
    """A connection, which it owns, a seeded choice of operations, and a Shadow for each object. One thread at a time."""

    def __init__(self, number, rados, pools, seed, tally, bytes_at_most):
        self.number, self.rados, self.pools, self.tally = number, rados, pools, tally
        self.bytes_at_most = bytes_at_most
        self.random = random.Random(f"{seed}/{number}")
        self.io = {pool.name: self.rados.pool(pool.name) for pool in pools}
        self.shadows = {}  # (pool, object) -> Shadow
        self.made = 0

    def close(self):
        for io in self.io.values():
            io.close()
        self.rados.close()

    # --- talking to the cluster

    def _lost(self, key, what):
        self.tally.mismatch(f"client {self.number} {key[0]}/{key[1]}: {what}")

    def _read(self, key, length, offset=0):
        """None where there is no object. Raises TimeoutError."""
        try:
            return self.io[key[0]].read(key[1], length, offset, after_writes=not self.shadows[key].settled)
        except FileNotFoundError:
            return None

    def _observe(self, key, kind, observe):
        """True once observe(), which reads and compares, had an answer."""
        self.tally.add(kind)
        try:
            observe()
        except TimeoutError:
            self.tally.add("timed out")
            return False
        except model.Mismatch as difference:
            self.tally.add("objects missing" if isinstance(difference, model.Missing) else "damage read")
            self._lost(key, difference)
        except OSError as e:
            self._lost(key, f"cannot be read: {e}")
        return True

    def check(self, key, kind="read"):
        """Read the object and compare it; True once that was answered."""

        def observe():
            longest = self.shadows[key].longest
            got = self._read(key, longest + 1)
            if got and len(got) > longest:  # seldom: so large a buffer takes longer than the read
                got = self._read(key, READ_AT_MOST)
            self.shadows[key].observe(got)

        return self._observe(key, kind, observe)

    def _check_range(self, key):
        size = len(self.shadows[key].content)
        offset = self.random.randrange(size + 1)
        length = self.random.randrange(1, size - offset + 2)
        self._observe(key, "read range",
                      lambda: self.shadows[key].observe_range(self._read(key, length, offset), offset, length))

    def _change(self, key, kind, operation):
        shadow = self.shadows[key]
        self.tally.add(kind)
        try:
            operation.send(self.io[key[0]], key[1])
            shadow.done(operation)
        except TimeoutError:
            self.tally.add("timed out")
            shadow.unknown(operation)
        except OSError as e:
            if e.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            shadow.unknown(operation)
            self._lost(key, f"{kind} failed: {e}")

    # --- what to do next

    def _size(self):
        """As likely in each power of two; few large ones."""
        return min(self.random.randrange(1, 1 << self.random.randrange(1, 23)), 4 * MiB)

    def _offset(self, last):
        """Of half of them the first byte of a page."""
        offset = self.random.randrange(last + 1)
        return offset - offset % (4 * KiB) if self.random.random() < 0.5 else offset

    def _settled(self, pool):
        return [key for key, shadow in self.shadows.items()
                if key[0] == pool.name and shadow.settled and shadow.content is not None]

    def _held(self):
        return sum(len(content or b"") for shadow in self.shadows.values() for content in shadow.allowed)

    def _create(self, pool):
        deleted = [key for key, shadow in self.shadows.items() if key[0] == pool.name and shadow.allowed == [None]]
        if deleted and self.random.random() < 0.3:
            key = self.random.choice(deleted)
        else:
            key = (pool.name, f"c{self.number}.{self.made}")
            self.made += 1
            self.shadows[key] = model.Shadow()
        size = self._size()
        if not pool.overwrites and self.random.random() < 0.5:  # only such objects can be appended to
            size = max(1, size // pool.stripe_width) * pool.stripe_width
        self._change(key, "create", model.Operation("write_full", self.random.randbytes(size)))

    def step(self):
        """One operation."""
        unsettled = [key for key, shadow in self.shadows.items() if not shadow.settled]
        if unsettled and self.random.random() < 0.5:
            self.check(self.random.choice(unsettled), "settling read")
            return
        pool = self.random.choice(self.pools)
        mine = self._settled(pool)
        if not mine or (self.random.random() < 0.25 and self._held() < self.bytes_at_most):
            self._create(pool)
            return
        key = self.random.choice(mine)
        size = len(self.shadows[key].content)
        kinds = {"read": 4, "read range": 3, "replace": 2, "delete": 1}
        if pool.overwrites:
            kinds |= {"overwrite": 6, "append": 3, "truncate": 1, "zero": 1 if size else 0}
        elif size % pool.stripe_width == 0:
            kinds |= {"append": 6}
        if self._held() > self.bytes_at_most:
            kinds |= {"delete": 8}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        if kind == "read":
            self.check(key)
        elif kind == "read range":
            self._check_range(key)
        else:
            self._change(key, kind, self._operation(kind, size, pool))

    def _operation(self, kind, size, pool):
        if kind == "delete":
            return model.Operation("remove")
        if kind == "truncate":
            return model.Operation("trunc", self.random.randrange(size + 1 + self._size() // 8))
        if kind == "zero":
            offset = self._offset(size - 1)
            return model.Operation("zero", offset, min(self._size(), size - offset))
        data = self.random.randbytes(self._size())
        if kind == "replace":
            return model.Operation("write_full", data)
        if kind == "append":
            if not pool.overwrites:
                data = data[: len(data) // pool.stripe_width * pool.stripe_width] or data
            return model.Operation("append", data)
        offset = self._offset(size) if self.random.random() < 0.9 else size + self._size() // 8
        return model.Operation("write", data, offset)

    # --- the whole of it

    def run(self, stop, pause_s):
        while not stop.is_set():
            self.step()
            stop.wait(self.random.random() * 2 * pause_s)

    def verify(self, kind, pools):
        """Compare every object of these pools; one that cannot be read within many tries is lost."""
        for key in [key for key in self.shadows if key[0] in pools]:
            for _ in range(READ_TRIES):
                if self.check(key, kind):
                    break
                self.rados.latest_map()  # an impatient client gives up before it asks for one of its own accord
            else:
                self._lost(key, f"no answer to {READ_TRIES} reads")

    def expected_names(self, pool):
        """Objects that exist, once everything is settled."""
        return {name for (of, name), shadow in self.shadows.items() if of == pool and shadow.content is not None}
