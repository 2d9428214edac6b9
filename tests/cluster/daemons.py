"""A Ceph cluster in one directory, on loopback: its daemons, and what a person or a program does with them.

Everything the cluster owns lies in the directory, its state included, so that any later call of any program can take over.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid

from cluster import librados, logs

PROGRAMS = ["ceph-mon", "ceph-osd", "ceph-mgr"]  # each in the package of its name
TERM_GRACE_S = 5  # from SIGTERM to SIGKILL
MKFS_TIMEOUT_S = 60
UP_TIMEOUT_S = 180  # daemons until they are in the maps
MAX_SOCKET_PATH = 107  # sun_path less its NUL

GLOBAL = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port}]
ms bind msgr1 = false
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
osd crush chooseleaf type = 0
osd pool default pg autoscale mode = off
"""
OWN = """\
# Written by ceph-cluster; this directory belongs to it.
keyring = {dir}/keyring
run dir = {dir}/run
admin socket = {dir}/run/$name.asok
crash dir = {dir}/crash
log file = {dir}/log/$name.log
log max recent = 500
erasure code dir = {dir}/erasure-code
mon data = {dir}/mon.$id
mon cluster log file = {dir}/log/cluster.log
mgr data = {dir}/mgr.$id
osd data = {dir}/osd.$id
osd pool default size = {size}
{more}
[client]
log file =
admin socket =
"""
DAEMONS = """\
[mon]
mon allow pool delete = true
mon data avail warn = 2
mon data avail crit = 1
mon max pg per osd = 1000
# Seconds between two changes of a map; few clients change them here, one after the other, and wait.
paxos propose interval = 0.1
# All OSDs share one host, so an OSD counts as a reporter of its own.
mon osd reporter subtree level = osd
mon osd min down reporters = 1
mon osd down out interval = 86400
# Many of these clusters have no manager, which is no error.
mon mgr mkfs grace = 86400
[mgr]
public addr = 127.0.0.1
mgr initial modules =
mgr stats period = 1
[osd]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
osd objectstore = bluestore
osd crush initial weight = 1
osd heartbeat interval = 2
osd recovery sleep = 0
osd recovery sleep hdd = 0
osd recovery sleep hybrid = 0
osd max backfills = 8
osd scrub sleep = 0
osd scrub backoff ratio = 0
osd max scrubs = 8
# A scrub comes when it is asked for, however busy the machine; and what it finds stays.
osd scrub auto repair = false
osd scrub load threshold = 1000000
osd scrub during recovery = true
bluestore block size = 12884901888
bluestore cache autotune = false
bluestore cache size = 67108864
# No write of data waits in BlueStore's database. Ceph 16.2.15 leaves such a write of a deleted object there if at a start after
# kill -9 BlueFS has its blocks, and does it at a later start, when they may be another object's: a shard is lost, whatever
# plugin runs. Ceph's pull request 60753 removes such writes; 62214 reverted it, and 69961 is its successor.
bluestore prefer deferred size hdd = 0
bluestore prefer deferred size ssd = 0
"""


class Failure(Exception):
    """The cluster does not do what it must; the text is for the person at the terminal."""


def free_port():
    """One for the monitor, below the range that Linux hands to clients; the other daemons find theirs themselves."""
    for port in random.sample(range(10000, 32000), 100):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            return port
    raise Failure("no free port found from 10000 to 31999")


def wait_until(what, late, timeout_s, pause_s=0.3):
    """Until late(), a list of words, is empty."""
    deadline = time.monotonic() + timeout_s
    while words := late():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {timeout_s} s: {', '.join(words)}")
        time.sleep(pause_s)


def ended(pid):
    """Whether every thread of the process is gone, and with them its files, locks and ports."""
    proc = pathlib.Path(f"/proc/{pid}")
    try:
        state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX" and len(list((proc / "task").iterdir())) <= 1
    except OSError:
        return True


def stock_plugins():
    """Where this machine's Ceph has its plugins; not a directory where Ceph was carried to rather than installed."""
    return pathlib.Path(subprocess.run(["ceph-osd", "-c", "/dev/null", "--show-config-value", "erasure_code_dir"], text=True,
                                       check=True, stdin=subprocess.DEVNULL, capture_output=True).stdout.strip())


def release():
    """Of this machine's Ceph: 16, 18, 20."""
    words = subprocess.run(["ceph-osd", "--version"], text=True, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return int(words.stdout.split()[2].split(".")[0])


class Cluster:
    """Its calls raise Failure, or OSError. start_osd() may be called from many threads, each with OSDs of its own."""

    def __init__(self, directory):
        self.dir = pathlib.Path(os.path.abspath(directory))
        self.conf = self.dir / "ceph.conf"
        self.facts_file = self.dir / "cluster.json"
        self.env = {k: v for k, v in os.environ.items() if k not in ("CEPH_ARGS", "CEPH_KEYRING")}
        self.env["CEPH_CONF"] = str(self.conf)
        self.connection = None

    # --- facts and names

    def exists(self):
        """Raises Failure where another user may change the directory, whose files say what runs and what is removed."""
        with contextlib.suppress(FileNotFoundError):
            there = self.dir.stat()
            for owner in (there.st_uid, self.dir.lstat().st_uid):
                if owner != os.geteuid():
                    raise Failure(f"--dir {self.dir}: belongs to user {owner}, not to {os.geteuid()}")
            if there.st_mode & 0o022:
                raise Failure(f"--dir {self.dir}: others may write to it (chmod go-w mends that)")
        return self.facts_file.is_file()

    def facts(self):
        if not self.exists():
            raise Failure(f"--dir {self.dir}: no cluster of this tool is there; start one with `up`")
        return json.loads(self.facts_file.read_text())

    def require_osd(self, osd):
        count = self.facts()["osds"]
        if osd not in range(count):
            raise Failure(f"OSD {osd}: this cluster has 0 to {count - 1}")

    def daemons(self):
        facts = self.facts()
        return ["mon.a"] + (["mgr.x"] if facts["mgr"] else []) + [f"osd.{n}" for n in range(facts["osds"])]

    def pid_file(self, name):
        return self.dir / "run" / f"{name}.pid"

    # --- processes

    def pid(self, name):
        """Of the daemon `name`, or None if it does not run. A pid that was handed to another program does not count."""
        try:
            pid = int(self.pid_file(name).read_text())
            argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        program = f"ceph-{name.split('.')[0]}".encode()
        ours = program in map(os.path.basename, argv) and os.fsencode(self.conf) in argv  # spawn()'s shell is ours as well
        return pid if ours else None

    def osd_pids(self):
        """Of the OSDs that run."""
        return [pid for name in self.daemons() if name.startswith("osd.") and (pid := self.pid(name))]

    def died(self):
        """Names of the daemons that ended by themselves; those that stop() ended have no pid file."""
        found = []
        for name in self.daemons():
            with contextlib.suppress(OSError, ValueError):
                if ended(int(self.pid_file(name).read_text())):
                    found.append(name)
        return found

    def require_alive(self):
        if died := self.died():
            raise Failure("\n".join(f"{name} died\n{logs.tails(self.dir, name)}" for name in died))

    def spawn(self, name, *extra, env=None):
        """Start the daemon's program, which must not fork (-f); its pid file exists before the program runs."""
        kind, ident = name.split(".")
        command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.pid_file(name)),
                   f"ceph-{kind}", "-f", "-i", ident, "-c", str(self.conf), *extra]
        env = {**self.env, **(env or {}), **(self.facts()["osd_env"] if kind == "osd" else {})}
        with open(self.dir / "log" / f"{name}.err", "ab") as err:
            return subprocess.Popen(command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                    start_new_session=True)

    def mkfs(self, name, *extra):
        code = self.spawn(name, "--mkfs", *extra).wait(timeout=MKFS_TIMEOUT_S)
        self.pid_file(name).unlink(missing_ok=True)
        if code != 0:
            raise Failure(f"{name}: mkfs ended with {code}\n{logs.tails(self.dir, name)}")

    def start(self, name, env=None):
        process = self.spawn(name, env=env)
        time.sleep(0.2)
        if process.poll() is not None:
            raise Failure(f"{name} ended at once with {process.returncode}\n{logs.tails(self.dir, name)}")

    def stop(self, names, first_signal=signal.SIGTERM):
        """End the daemons; SIGKILL for those that outlive the grace."""
        left = {}
        for number, grace_s in ((first_signal, TERM_GRACE_S), (signal.SIGKILL, 2 * TERM_GRACE_S)):
            for name in names:
                if pid := self.pid(name):
                    left[name] = pid
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, number)  # spawn() made each daemon the leader of its group
            deadline = time.monotonic() + grace_s
            while (left := {n: p for n, p in left.items() if not ended(p)}) and time.monotonic() < deadline:
                time.sleep(0.05)
        if left:
            raise Failure(f"still running after SIGKILL: {left}")
        for name in names:
            self.pid_file(name).unlink(missing_ok=True)

    # --- talking to the cluster

    @property
    def rados(self):
        """A connection of ours, made on first use."""
        if self.connection is None:
            self.connection = librados.Rados(self.conf)
        return self.connection

    def disconnect(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def mon(self, prefix, **arguments):
        """The monitor's reply to a command, as in `ceph COMMAND`, but by its names of arguments."""
        try:
            return self.rados.mon(prefix, **arguments)
        except OSError as e:
            log = "" if self.pid("mon.a") else f"\nmon.a is not running\n{logs.tails(self.dir, 'mon.a')}"
            raise Failure(f"{e.filename}: {e.strerror}{log}") from None

    def mon_json(self, prefix, **arguments):
        return json.loads(self.mon(prefix, **arguments, format="json"))

    # --- the verbs

    def up(self, osds, plugin_dir=None, osd_env=None, *, mgr=False, keep=False, settings=None):
        """Make a cluster and start it, and wait until its OSDs are up. `keep`: leave the directory if that fails.
        `settings`: options of Ceph, for all daemons and clients."""
        needed = [p for p in PROGRAMS if mgr or p != "ceph-mgr"]
        if missing := [p for p in needed if not shutil.which(p)]:
            raise Failure(f"not installed: {', '.join(missing)} (apt-get install {' '.join(missing)})")
        librados.library()
        facts = {"osds": osds, "mgr": mgr, "osd_env": dict(osd_env or {}), "port": free_port()}
        self.make_directory(facts, plugin_dir, settings or {})
        try:
            self.start_all(facts)
        except BaseException:
            self.down(keep=keep)
            raise

    def make_directory(self, facts, plugin_dir, settings):
        if len(os.fsencode(self.dir / "run" / "osd.99.asok")) > MAX_SOCKET_PATH:
            raise Failure(f"--dir {self.dir}: too long, a socket's path in it may have {MAX_SOCKET_PATH} bytes")
        self.dir.mkdir(0o755, parents=True, exist_ok=True)
        if self.exists():
            raise Failure(f"--dir {self.dir}: already holds a cluster; end it with `down` first")
        if any(self.dir.iterdir()):
            raise Failure(f"--dir {self.dir}: not empty and not made by this tool")
        with open(self.facts_file, "x") as facts_file:  # "x": of two calls at once one loses here
            json.dump(facts, facts_file)
        for sub in ("run", "log", "crash", "erasure-code", "mon.a", "mgr.x"):
            (self.dir / sub).mkdir()
        text = GLOBAL + OWN + DAEMONS
        self.conf.write_text(text.format(dir=self.dir, fsid=uuid.uuid4(), port=facts["port"], size=min(3, facts["osds"]),
                                         more="\n".join(f"{name} = {value}" for name, value in settings.items())))
        sources = [source for source in (stock_plugins(), plugin_dir) if source and source.is_dir()]
        for path in {p.name: p for source in sources for p in source.iterdir()}.values():
            (self.dir / "erasure-code" / path.name).symlink_to(path.resolve())

    def start_all(self, facts):
        self.mkfs("mon.a")
        self.start("mon.a")
        self.mon("mon dump")  # connects, before threads would
        if facts["mgr"]:
            self.mon("config set", who="mgr", name="mgr/devicehealth/enable_monitoring", value="false", force=True)
            self.start("mgr.x")
        with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(self.make_osd, range(facts["osds"])))
        self.start_osds(set(range(facts["osds"])))
        if facts["mgr"]:
            wait_until("mgr active", lambda: [] if self.mon_json("mgr dump")["available"] else ["mgr.x"], UP_TIMEOUT_S)

    def make_osd(self, osd):
        identity = str(uuid.uuid4())
        self.mon("osd new", uuid=identity, id=osd)
        self.wipe_osd(osd, identity)

    def start_osds(self, osds, env=None):
        """Start the OSDs and wait until a map newer than this call has them up."""
        before = self.mon_json("osd dump")["epoch"]
        for osd in osds:
            self.start(f"osd.{osd}", env)

        def late():
            self.require_alive()
            up = {o["osd"] for o in self.mon_json("osd dump")["osds"] if o["up"] and o["up_from"] > before}
            return [f"osd.{osd}" for osd in osds - up]

        wait_until("OSDs up", late, UP_TIMEOUT_S)

    def down(self, keep=False):
        """End every daemon, and remove the directory unless it is to be kept. Nothing where there is no cluster."""
        self.disconnect()
        if self.exists():
            names = self.daemons()
            self.stop(names[1:])
            self.stop(names[:1])  # the monitor last: the others take leave of it
            if not keep:
                shutil.rmtree(self.dir)

    def kill_osd(self, osd):
        self.require_osd(osd)
        self.stop([f"osd.{osd}"], signal.SIGKILL)

    def start_osd(self, osd, env=None):
        """`env`: what the OSD gets on top of our own environment."""
        self.require_osd(osd)
        if pid := self.pid(f"osd.{osd}"):
            raise Failure(f"osd.{osd} runs already, pid {pid}")
        self.start_osds({osd}, env)

    def rebuild_osd(self, osd, env=None):
        """Purge the OSD from the cluster and bring it back empty under the same id."""
        self.kill_osd(osd)
        self.mon("osd down", ids=[str(osd)])
        # What `osd purge` comes down to when the manager, which may not run here, has been asked whether it is safe.
        self.mon("osd purge-actual", id=osd, yes_i_really_mean_it=True)
        self.make_osd(osd)
        self.start_osd(osd, env)

    def wipe_osd(self, osd, identity=None):
        """Give an OSD that does not run an empty store, as a new disk has it; the cluster is not told."""
        identity = identity or next(o["uuid"] for o in self.mon_json("osd dump")["osds"] if o["osd"] == osd)
        shutil.rmtree(self.dir / f"osd.{osd}", ignore_errors=True)
        (self.dir / f"osd.{osd}").mkdir()
        self.mkfs(f"osd.{osd}", "--osd-uuid", identity)
