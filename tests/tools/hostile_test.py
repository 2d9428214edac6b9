"""Eleven kinds of hostile process of another user, all at once, while root looks at the real daemons: the tools end, say what is
true, and write no large file.

hostile_test.py ECTOOL STATS_CHILD ADOPT
Exit status: 0 they do, 77 skipped (only root can be another user), 1 otherwise.
"""
import contextlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from stand_in import DISGUISE, PYTHON, Child, check, daemon

STRANGER = 54321
# What is asked for is 10 seconds, and ectool's own deadline is 6; a busy host takes longer to start and end a program. What
# held the tools up before did so for minutes or for ever.
LONGEST = 60
MOST_BYTES = 5_000_000

# KIND PAGE-FILE SOCKET COUNT, as the stranger; says "up".
HOSTILE = DISGUISE + r"""
import signal, time
kind, page, path, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

def drip(client):
    client.sendall(b"\0\0\1\0")
    while True:
        client.sendall(b" ")
        time.sleep(0.3)

def flood(client):
    client.sendall(b"\xff\xff\xff\xff")
    while True:
        client.sendall(bytes(1 << 20))

def children(number):
    for _ in range(number):
        if os.fork() == 0:
            signal.pause()

become("ceph-osd")
if kind == "lease":
    for file in pages(page, 8):
        fcntl.fcntl(os.open(f"/proc/self/fd/{file}", os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
elif kind in ("kmsg", "forged"):
    pages(page, 1)
elif kind == "stopped":
    pages(page, 1)
    def stop():
        while True:
            for name in os.listdir("/proc"):
                try:
                    if name.isdecimal() and open(f"/proc/{name}/comm").read() == "ectool\n":
                        os.kill(int(name), signal.SIGSTOP)
                except OSError:
                    pass
    threading.Thread(target=stop, daemon=True).start()
elif kind == "drip":
    serve(path, drip)
elif kind == "flood":
    serve(path, flood)
elif kind == "list":
    serve(path, lambda client: client.sendall(b"\0\0\0\3[1]"))
elif kind == "series":
    pages(page, 8)
    children(count - 1)
elif kind == "descriptors":
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)] + pages(page, 8)
    children(39)
elif kind == "names":
    for i in range(count):  # lines of /proc/net/unix that say of another's socket where it listens
        name = f"{i}\n0 0 0 0 0 0 {sys.argv[5]} {sys.argv[6]}"
        os.makedirs(os.path.dirname(name))
        files = socket.socket(socket.AF_UNIX), *(files if i else [])
        files[0].bind(name)
        files[0].listen()
elif kind == "maps":
    with open("libec_cuda.so", "w+b") as file:
        file.truncate(8192)
        for i in range(count):  # neighbours that do not become one
            libc.mmap(None, ctypes.c_size_t(4096), 1, 2, file.fileno(), ctypes.c_long(4096 * (i % 2)))
print("up", flush=True)
sys.stdin.read()
os.killpg(0, signal.SIGKILL)
"""


class Hostile:
    """Processes of the stranger's, each in a group of its own that ends with its standard input."""

    def __init__(self, folder, page):
        self.folder, self.page, self.running = folder, page, []
        self.script = folder / "hostile.py"
        self.script.write_text(HOSTILE)

    def start(self, kind, count=1, arguments=(), **environment):
        process = subprocess.Popen([PYTHON, self.script, kind, self.page, self.folder / f"{kind}.asok", str(count),
                                    *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                   user=STRANGER, group=STRANGER, extra_groups=[], process_group=0 if sys.version_info >= (3, 11)
                                   else None, env={**os.environ, **environment})
        self.running.append(process)
        said = process.stdout.readline()
        check(said == b"up\n", f"{kind}: {said} {process.stderr.read() if not said else ''}")

    def end(self):
        for process in self.running:
            process.stdin.close()
            process.wait()


def timed(*command, statuses=(0,)):
    """Its output, within the time that is allowed."""
    begun = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"FAILED: {command} takes longer than {LONGEST} s")
    print(f"{' '.join(map(str, command[1:]))}: {time.monotonic() - begun:.1f} s, {len(done.stdout)} bytes")
    check(done.returncode in statuses, f"{command}: exit {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def check_tools(ectool, adopt, folder, osd, answering):
    """osd: has stats. answering: has an admin socket."""
    def right(processes):
        mine = [each for each in processes if each["pid"] == osd.pid]
        check(len(mine) == 1 and mine[0]["name"] == "osd.3" and mine[0]["uid"] == 0, mine)
        check([row["jobs"] for row in mine[0]["rows"] if row["jobs"]] == [1000], mine)

    said = json.loads(timed(ectool, "stats", "--json"))
    right(said["processes"])
    check(all(each["uid"] != STRANGER for each in said["processes"]), "a stranger's process")
    check(f"{osd.pid} " in timed(ectool, "stats"), "the list")
    for more in ([], ["--all"]):
        file = folder / "ec_cuda.prom"
        timed(ectool, "stats", "--prometheus", "--output", file, *more)
        text = file.read_text()
        check(file.stat().st_size < MOST_BYTES, f"{file.stat().st_size} bytes")
        check(f'ec_cuda_jobs_total{{process="osd.3",pid="{osd.pid}",uid="0",backend="isal",operation="encode"}} 1000\n' in text,
              text[:2000])
        check((f'uid="{STRANGER}"' in text) == bool(more), "strangers are there with --all, and with their number")
        check(bool(more) or 'result="mismatch"} 7' not in text, "a forged mismatch")
        found = json.loads(timed(ectool, "doctor", "--json", *more, statuses=(0, 3, 4)))
        mine = {each["pid"]: each for each in found["daemons"] if each["pid"] in (osd.pid, answering.pid)}
        check(len(mine) == 2 and mine[answering.pid]["release"] == "20.2.4", mine)
        check(bool(more) or not any("osd.3" in each["text"] and each["check"] == "bytes" for each in found["findings"]),
              found["findings"])
    right(json.loads(timed(ectool, "stats", "--json", "--all"))["processes"])
    said = timed(sys.executable, adopt, "--check", "--directory", folder / "adopted", statuses=(0, 1))
    check(f"osd.3, pid {osd.pid}, user 0, Ceph unknown:\n" in said and f"osd.4, pid {answering.pid}, user 0, Ceph 20.2.4:\n"
          f"  erasure_code_dir {folder / 'stock'}\n" in said, said)
    check(said.count("osd.3,") == 1 and "stands in for" not in said, f"a stranger's daemon: {said}")


def main():
    ectool, child, adopt = sys.argv[1:]
    os.environ["PATH"] = f"{os.path.dirname(ectool)}:{os.environ['PATH']}"  # of adopt
    if os.geteuid() != 0:
        print("skipped: only root can be another user")
        return 77
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="hostile-test-", dir="/var/tmp") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        program = folder / "ceph-osd"
        program.write_bytes(pathlib.Path(child).read_bytes())  # nobody but root may reach the folder where it was built
        program.chmod(0o755)
        page = folder / "page"
        with Child(program, "--id", "3") as forged:
            forged.tell("forge", 0, 0)
            page.write_bytes(forged.page())
        osd = stack.enter_context(Child(program, "--id", "3"))
        osd.tell("encode", 1000, 4096)
        (folder / "stock").mkdir()
        answering = stack.enter_context(daemon(folder, ["-n", "osd.4"], folder / "stock", "20.2.4"))
        hostile = Hostile(folder, page)
        stack.callback(hostile.end)
        hostile.start("lease")
        hostile.start("kmsg", EC_CUDA_STOCK_DIRECTORY="/proc/kmsg")
        hostile.start("forged", arguments=["--id", "3"])
        for kind in ("stopped", "drip", "flood", "list"):
            hostile.start(kind)
        hostile.start("series", 20)
        hostile.start("descriptors", min(20_000, most_files - 100))
        hostile.start("maps", 60_000)
        stack.enter_context(daemon(folder, ["-n", "osd.5"], folder, "19.2.3"))
        listening = "00010000"  # whoever connects has the path too
        inode, = (line.split()[6] for line in open("/proc/net/unix")
                  if line.endswith(f"{folder}/ceph-n-osd.4.asok\n") and line.split()[3] == listening)
        hostile.start("names", 200, [inode, f"{folder}/ceph-n-osd.5.asok"])
        check_tools(ectool, adopt, folder, osd, answering)
    return 0


if __name__ == "__main__":
    sys.exit(main())
