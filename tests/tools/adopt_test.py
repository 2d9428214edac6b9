"""tools/adopt on directories made up here, and beside processes that look to it like OSDs.

adopt_test.py ADOPT ECTOOL
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from stand_in import PluginsTest, daemon

ECTOOL, ADOPT = sys.argv.pop(2), sys.argv.pop(1)
os.environ["PATH"] = f"{os.path.dirname(ECTOOL)}:{os.environ['PATH']}"

TO_DO = re.compile(r"^(?:  (?:warning|error) |(?:warning|error) +adoption )", re.MULTILINE)  # of a daemon, or of the directory


class AdoptTest(PluginsTest):
    def setUp(self):
        self.root = self.temporary()
        self.make_plugins(self.root, self.root / "lib" / "libec_cuda.so")
        self.directory = self.root / "made" / "erasure-code"

    def adopt(self, *arguments, status=0, says=(), before=()):
        done = subprocess.run([*before, sys.executable, ADOPT, *arguments, "--directory", self.directory, "--stock", self.stock,
                               "--plugin", self.ours], capture_output=True, text=True)
        text = done.stdout + done.stderr
        if "--check" in arguments and done.returncode == 1:  # OSDs that are not ours may run on this machine, too
            parts = re.split(r"\n(?=\S+, pid \d+, )", text)
            ours = "".join(part for part in parts if ", pid " not in part or f"dir {self.root}" in part)
            self.assertEqual(bool(TO_DO.search(ours)), status == 1, text)
        else:
            self.assertEqual(done.returncode, status, text)
        for words in says:
            self.assertIn(words, text)
        return text

    def links(self):
        return {path.name: path.resolve() for path in self.directory.glob("libec_*")}

    def stock_links(self):
        return {path.name: path for path in self.stock.iterdir()}

    def test_changes_nothing_unless_told_to(self):
        self.adopt("isa", says=["nothing was changed", f"erasure_code_dir {self.directory}", "systemctl restart"])
        self.assertFalse(self.directory.parent.exists())

    def test_links_our_file_for_the_names_and_the_packaged_files_for_all_others(self):
        packaged = {path: path.read_bytes() for path in self.stock.iterdir()}
        old_mask = os.umask(0o077)
        self.addCleanup(os.umask, old_mask)
        self.adopt("isa", "jerasure", "--apply")
        ours = {name: self.ours for name in ("libec_cuda.so", "libec_isa.so", "libec_jerasure.so")}
        self.assertEqual(self.links(), self.stock_links() | ours)
        self.assertEqual(self.directory.stat().st_mode & 0o777, 0o755)  # for the daemons' user
        self.adopt("isa", "--apply")  # the names are all that is adopted
        self.assertEqual(self.links(), self.stock_links() | {name: self.ours for name in ("libec_cuda.so", "libec_isa.so")})
        self.assertEqual({path: path.read_bytes() for path in self.stock.iterdir()}, packaged)

    def test_undo_leads_all_names_back(self):
        self.adopt("isa", "jerasure", "--apply")
        self.adopt("--undo", says=["nothing was changed", f"rm -r {self.directory}"])
        self.assertEqual(self.links()["libec_isa.so"], self.ours)
        self.adopt("--undo", "--apply")
        self.assertEqual(self.links(), self.stock_links() | {"libec_cuda.so": self.ours})

    def test_goes_on_after_an_interruption(self):
        self.adopt("isa", "--apply")
        (self.directory / ".libec_isa.so.new").symlink_to("/nowhere")
        (self.directory / "libec_isa.so").unlink()
        self.adopt("--check", status=1, says=["libec_isa.so of Ceph has no link in"])
        (self.directory / ".libec_lrc.so.new").symlink_to("/nowhere")
        self.adopt("isa", "--apply")
        self.assertEqual(self.links()["libec_isa.so"], self.ours)
        self.adopt("--undo", "--apply")
        self.assertFalse([path for path in self.directory.iterdir() if path.name.endswith(".new")])

    def test_touches_no_directory_of_others(self):
        self.directory.mkdir(parents=True)
        (self.directory / "libec_isa.so").write_text("packaged")
        for verb in (["isa", "--apply"], ["--undo", "--apply"]):
            self.adopt(*verb, status=1, says=["not made by this program"])
        self.assertEqual(self.links(), {"libec_isa.so": self.directory / "libec_isa.so"})
        shutil.rmtree(self.directory)
        self.directory.symlink_to(self.stock)
        self.adopt("isa", "--apply", status=2, says=["it is a link"])
        self.directory.unlink()

    def test_names_what_is_wrong(self):
        self.adopt("clay", status=2, says=["'clay'", "isa, jerasure"])
        self.adopt("\x1b[2Jisa", status=2, says=["'?[2Jisa'"])
        self.adopt(status=2, says=["--check"])
        self.adopt("isa", "--undo", status=2)
        self.adopt("jerasure", "--apply", says=["EC_CUDA_STOCK_DIRECTORY=", "may not read"])
        self.ours.write_bytes(b"of version 0.1")
        self.adopt("--check", status=1, says=["DANGER", "--undo --apply"])
        self.adopt("isa", status=1, says=["too old", str(self.ours)])
        self.ours.unlink()
        self.adopt("isa", status=1, says=["No such file", "--plugin"])
        self.ours = pathlib.Path("none.so")
        self.adopt("isa", status=1, says=["plugin none.so: No such file"])
        self.jerasure.unlink()
        self.adopt("jerasure", status=1, says=["libec_jerasure.so is not in"])
        for name in ("a\nb", "a ", "\udcff"):
            self.directory = self.root / name
            self.adopt("isa", "--apply", status=2, says=["must be printable UTF-8 that does not end with a blank"])
        self.directory = self.root / ("x" * 256)
        self.adopt("isa", status=1, says=["x: File name too long"])

    def test_ends_as_it_says_whatever_happens(self):
        full = ["sh", "-c", 'exec "$@" >/dev/full', "sh"]
        for arguments in (["isa"], ["--help"]):
            self.assertEqual(self.adopt(*arguments, before=full, status=1), "adopt: No space left on device\n")
        self.assertIn("\n  adopt isa jerasure [--apply]", self.adopt("--help"))
        installed = self.root / "ec_adopt"
        shutil.copy(ADOPT, installed)
        (self.root / "VERSION").touch()
        self.assertIn("\n  ec_adopt --check ", subprocess.run([sys.executable, installed, "--help"], capture_output=True, text=True).stdout)
        for fault, says in (("error=ENOSPC", ".so.new: No space left on device"), ("signal=INT", "adopt: interrupted")):
            self.adopt("isa", "--apply", before=self.failing(f"/^symlink:{fault}"), status=1, says=[says])

    # --- beside OSDs; what ectool says of them: daemons_test.py

    def osd(self, number, directory, *plugins, release="16.2.15"):
        return daemon(self.root, ["-i", str(number)], directory, release, *plugins)

    def test_proposes_nothing_beside_an_osd_of_a_release_that_is_not_known(self):
        for release in ("21.1.0", "20.3.0-5", "main-123"):
            with self.osd(903, self.stock, release=release):
                self.adopt("isa", "--apply", status=1, says=[f"osd.903 is of Ceph {release}, which this ec_cuda does not know"])
                self.assertFalse(self.directory.exists())
        with self.osd(903, self.stock, release="19.2.3"):
            self.adopt("isa", "--apply")

    def test_checks_the_osds(self):
        self.adopt("isa", "--apply")
        with self.osd(901, self.stock, self.isa):
            self.adopt("--check", status=1, says=[f"{self.directory} stands in for isa\n",
                                                  f"isa: set erasure_code_dir to {self.directory} and restart it"])
        with self.osd(902, self.directory, self.ours):
            self.adopt("--check", says=["osd.902"])
        self.adopt("--undo", "--apply")
        with self.osd(903, self.directory, self.isa):
            self.assertNotIn("stands in for", self.adopt("--check", says=["isa: by Ceph"]))

    def test_knows_processes_that_end_while_it_looks(self):
        osd = self.root / "ceph-osd"
        osd.symlink_to(shutil.which("sleep"))
        self.adopt("isa", "--apply")
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                process = subprocess.Popen(["sh", "-c", f"while :; do {osd} 0.003; done"])
                stack.callback(process.wait)
                stack.callback(process.kill)
            for _ in range(15):
                text = self.adopt("--check")
                self.assertNotIn("cannot be looked at", text)


if __name__ == "__main__":
    unittest.main()
