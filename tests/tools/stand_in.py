"""Processes that look like Ceph's daemons to the tools: by the names, the plugins that they have mapped, and an admin socket."""
import contextlib
import os
import shutil
import subprocess
import sys

# One that other users and other root directories have.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable

# CALLED [ARGUMENTS..] -- ADMIN-SOCKET ERASURE-CODE-DIR RELEASE PLUGIN.. ; ends with its standard input.
DAEMON = """
import ctypes, json, mmap, os, socket, struct, sys, threading
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv[1].encode())  # PR_SET_NAME
admin, directory, release, *plugins = sys.argv[sys.argv.index("--") + 1:]
files = [open(path, "rb") for path in plugins]
kept = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]
server = socket.socket(socket.AF_UNIX)
server.bind(admin)
server.listen()
def serve():
    while True:
        client, _ = server.accept()
        asked = json.loads(client.recv(1000).rstrip(bytes(1)))
        answer = {"version": release} if asked["prefix"] == "version" else {asked["var"]: directory}
        text = json.dumps(answer).encode()
        client.sendall(struct.pack(">I", len(text)) + text)
        client.close()
threading.Thread(target=serve, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""


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
