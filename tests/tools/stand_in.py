"""Processes for the tools to look at: some that code, and some that look like Ceph's daemons by the names, the plugins that they
have mapped, and an admin socket."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

# One that other users and other root directories have.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable

# What programs that look like a daemon have: its name, files with what a process of ours has counted, and a socket.
DISGUISE = """
import ctypes, fcntl, os, socket, sys, threading
libc = ctypes.CDLL(None)

def become(name):
    libc.prctl(15, name.encode())  # PR_SET_NAME

def pages(path, number):
    made = []
    for _ in range(number):
        made.append(os.memfd_create("ec_cuda_stats", os.MFD_ALLOW_SEALING))
        os.write(made[-1], open(path, "rb").read())
        fcntl.fcntl(made[-1], 1033, 7)  # F_ADD_SEALS: SEAL, SHRINK, GROW
    return made

def serve(path, answer):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    def loop():
        while True:
            client, _ = server.accept()
            threading.Thread(target=answer, args=(client,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
"""

# CALLED [ARGUMENTS..] -- ADMIN-SOCKET ERASURE-CODE-DIR RELEASE PLUGIN.. ; ends with its standard input.
DAEMON = DISGUISE + """
import json, mmap, struct
become(sys.argv[1])
admin, directory, release, *plugins = sys.argv[sys.argv.index("--") + 1:]
files = [open(path, "rb") for path in plugins]
kept = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]
if page := os.environ.get("PAGE"):
    pages(page, 1)
def answer(client):
    asked = json.loads(client.recv(1000).rstrip(bytes(1)))
    text = json.dumps({"version": release} if asked["prefix"] == "version" else {asked["var"]: directory}).encode()
    client.sendall(struct.pack(">I", len(text)) + text)
    client.close()
serve(admin, answer)
print("up", flush=True)
sys.stdin.read()
"""


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


class Child:
    """A process of stats_child, which codes what it is told."""

    def __init__(self, program, *arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EC_CUDA_")}
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        check(self.process.stdout.readline() == "ok\n", words)

    def page(self):
        """What it has counted, as it lies in memory."""
        files = (f"/proc/{self.pid}/fd/{number}" for number in os.listdir(f"/proc/{self.pid}/fd"))
        return pathlib.Path(next(file for file in files if "ec_cuda_stats" in os.readlink(file))).read_bytes()


class PluginsTest(unittest.TestCase):
    """Directories with files that are Ceph's plugins to the tools, and with one that is ours."""

    def make_plugins(self, root, ours):
        self.stock, self.ours = root / "stock", ours
        self.isa, self.jerasure = self.stock / "libec_isa.so", self.stock / "libec_jerasure.so"
        for path in (self.isa, self.jerasure, self.stock / "libec_lrc.so", self.ours):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(path.name.encode() + b" EC_CUDA_STOCK_DIRECTORY __erasure_code_init" * (path == self.ours))

    def temporary(self):
        folder = tempfile.TemporaryDirectory(prefix="ec-tools-test-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def failing(self, fault):
        """Words that run a program whose system calls fail."""
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-E", "ASAN_OPTIONS=detect_leaks=0", "-e", f"inject={fault}"]
        if shutil.which("strace") is None or subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("no strace here, or it may not trace")
        return words

    def replace_ours(self):
        """As a package's upgrade does it."""
        fresh = self.ours.with_suffix(".new")
        shutil.copy(self.ours, fresh)
        fresh.replace(self.ours)


@contextlib.contextmanager
def daemon(folder, arguments, directory, release, *plugins, called="ceph-osd", before=(), inside="", user=None):
    """before: words of a command that runs it. inside: what the path of `folder` is called there, if it is another."""
    script, admin = folder / "daemon.py", folder / f"ceph-{'-'.join(arguments).strip('-')}.asok"
    script.write_text(DAEMON)
    admin.unlink(missing_ok=True)

    def seen(path):
        return str(path).replace(str(folder), inside) if inside else str(path)

    with subprocess.Popen([*before, PYTHON, seen(script), called, *arguments, "--", seen(admin), seen(directory), release,
                           *map(seen, plugins)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user) as process:
        if process.stdout.readline() != b"up\n":
            raise RuntimeError(f"{before} {arguments} did not start")
        try:
            yield process
        finally:
            process.stdin.close()


def roots(folder):
    """A root directory of another file system below `folder`, in which `folder`/shared is /shared, as words that run a command
    there; None if this user cannot make one."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return None
    root = folder / "root"
    root.mkdir()
    made = f"mount -t tmpfs none '{root}' && cd '{root}' && mkdir shared dev proc && mount --bind '{folder}/shared' shared && " \
           "for d in usr lib lib64 bin etc; do test -e /$d && mkdir $d && mount --rbind /$d $d; done; mount -t proc proc proc && " \
           'mount --bind /dev dev && exec chroot . "$@"'
    words = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", made, "sh"]
    works = subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return words if works else None
