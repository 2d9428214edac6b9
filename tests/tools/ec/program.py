"""ec as the tests run it, in a folder of its own."""
import argparse
import contextlib
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile

OK, FAILURE, USAGE, DAMAGED, LOST = range(5)


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def given_options(*names, **options):
    """Of a test's command line: the program, the names, and options with these defaults, which are numbers or False."""
    parser = argparse.ArgumentParser()
    for name in ("program", *names):
        parser.add_argument(name)
    for name, default in options.items():
        kind = {"action": "store_true"} if default is False else {"type": int, "default": default}
        parser.add_argument(f"--{name}", **kind)
    return parser.parse_args()


def contents(directory):
    """Of all files beneath, by their relative names."""
    return {name: state[0] for name, state in state_of(directory).items() if state[0] is not None}


def state_of(folder):
    """All beneath a folder by its relative name: content (of files), inode, mode, time of change, owner, links. Names are of the
    folder's type: str or bytes."""
    found = {}
    for place, directories, names in os.walk(folder):
        for name in directories + names:
            path = os.path.join(place, name)
            st, content = os.lstat(path), None
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    content = file.read()
            found[os.path.relpath(path, folder)] = (content, st.st_ino, stat.S_IMODE(st.st_mode), st.st_mtime_ns, st.st_uid, st.st_nlink)
    return found


def limited(what, most):
    """For preexec_fn: a process that has so much of a resource."""
    return lambda: resource.setrlimit(what, (most, most))


class Ec:
    """Names are of files in the folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def __call__(self, *arguments, stdout=subprocess.PIPE, **options):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, stdout=stdout, stderr=subprocess.PIPE, check=False, **options)
        return done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace")

    def right(self, *arguments, **options):
        status, out, err = self(*arguments, **options)
        check(status == OK and err == "", f"{arguments}: exit {status}: {err}")
        return out

    def ends(self, expected, *arguments, says="", what="", **options):
        """With this status, or one of these, and with the words; returns all that it said."""
        status, out, err = self(*arguments, **options)
        allowed = expected if isinstance(expected, tuple) else (expected,)
        check(status in allowed and says in out + err, f"{what} {arguments}: {status} {out[-500:]} {err[-500:]}")
        return out + err

    def path(self, *names):
        return os.path.join(self.folder, *map(os.fsdecode, names))

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def patch(self, name, at, content):
        with open(self.path(name), "r+b") as file:
            file.seek(at)
            file.write(content)

    def remove(self, *names):
        for name in names:
            os.remove(self.path(name))

    def contents(self, name):
        return contents(self.path(name))

    def state_of(self, name):
        return state_of(self.path(name))

    def files(self, name="."):
        return {n for n in os.listdir(self.path(name)) if os.path.isfile(self.path(name, n))}

    def fresh(self, *names):
        for name in names:
            shutil.rmtree(self.path(name), ignore_errors=True)
            os.mkdir(self.path(name))

    def fill(self, place, files):
        """A fresh folder with these files, by their names in it."""
        self.fresh(place)
        for name, content in files.items():
            self.write(f"{place}/{name}", content)

    def code(self, content, *shape, name="object"):
        """A fresh folder `set` with the shards of such a file, and a fresh `out`."""
        self.fresh("set", "out")
        self.write(name, content)
        self.right("create", name, *shape, "-o", "set")


@contextlib.contextmanager
def in_folder(program):
    """Ec in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ec_test_", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Ec(os.path.realpath(program), folder)
