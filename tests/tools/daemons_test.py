"""What `ectool doctor --json` says of daemons by their own files: on this host, and in another root directory and PID namespace.

daemons_test.py ECTOOL STATS_CHILD
"""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest
import unittest.mock

from stand_in import Child, PluginsTest, daemon, roots

CHILD, ECTOOL = sys.argv.pop(2), sys.argv.pop(1)


class DaemonsTest(PluginsTest):
    def setUp(self):
        self.shared = self.temporary() / "shared"
        self.shared.mkdir()
        self.make_plugins(self.shared, self.shared / "stock" / "libec_cuda.so")
        self.adopted = self.shared / "adopted"
        self.adopted.mkdir()
        self.link(isa=self.isa, jerasure=self.jerasure)

    def link(self, **leads):
        for name, target in leads.items():
            path = self.adopted / f"libec_{name}.so"
            path.unlink(missing_ok=True)
            path.symlink_to(target)

    def doctor(self, *arguments, before=()):
        done = subprocess.run([*before, ECTOOL, "doctor", "--json", "--directory", self.adopted, *arguments], stdout=subprocess.PIPE,
                              text=True)
        said = json.loads(done.stdout)
        self.assertEqual(done.returncode, {"ok": 0, "note": 0, "warning": 3, "error": 4}[said["severity"]], said)
        return said

    def of(self, process, said=None):
        """What is said of the process, whose number inside another namespace is not the one that we know."""
        said = said or self.doctor()
        parents = {}
        for line in subprocess.run(["ps", "-e", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True).stdout.splitlines():
            pid, parent = map(int, line.split())
            parents[pid] = parent
        found = [each for each in said["daemons"] if process.pid in (each["pid"], parents.get(each["pid"]))]
        self.assertEqual(len(found), 1, said)
        return found[0]

    def texts(self, daemon_or_directory):
        return [f"{each['severity']}: {each['text']}" for each in daemon_or_directory["findings"]]

    def test_names_a_daemon_as_each_way_of_starting_it_does(self):
        for arguments, name, called in ((["-n", "osd.901", "-f", "--setuser", "ceph"], "osd.901", "ceph-osd"),
                                        (["--id", "9 02"], "osd.9 02", "ceph-osd"), (["-i", "a"], "mon.a", "ceph-mon"),
                                        (["--id=903"], "osd.903", "ceph-osd"), (["--name=osd.904"], "osd.904", "ceph-osd")):
            with daemon(self.shared, arguments, self.stock, "18.2.7", self.isa, called=called) as process:
                said = self.of(process)
                self.assertEqual((said["name"], said["release"], said["program"], said["container"], said["erasure_code_dir"]),
                                 (name, "18.2.7", called, "", str(self.stock)))
                self.assertEqual(said["plugins"], [{"path": str(self.isa), "ours": False, "current": True}])

    def test_says_what_each_uses_and_what_is_to_be_done(self):
        self.link(isa=self.ours, jerasure=self.ours, cuda=self.ours)
        with daemon(self.shared, ["-i", "901"], self.stock, "16.2.15", self.isa, self.jerasure) as stock, \
                daemon(self.shared, ["-i", "902"], self.adopted, "16.2.15", self.ours, self.jerasure) as adopted:
            said = self.doctor()
            self.assertEqual(said["directory"], {"path": str(self.adopted), "stands_in_for": ["isa", "jerasure"], "findings": []})
            wanting = self.of(stock, said)
            self.assertEqual(wanting["uses"][1:], [f"isa: by Ceph ({self.isa})", f"jerasure: by Ceph ({self.jerasure})"])
            self.assertEqual(self.texts(wanting), [f"warning: {name}: set erasure_code_dir to {self.adopted} and restart it"
                                                   for name in ("isa", "jerasure")])
            done = self.of(adopted, said)
            self.assertEqual((done["stands_in_for"], done["findings"]), (["isa", "jerasure"], []))
            self.assertEqual((wanting["adopted"], done["adopted"]), (False, True))
            self.assertEqual(done["uses"][1:], [f"isa: all techniques by ec_cuda ({self.ours})",
                                                "jerasure: reed_sol_van and reed_sol_r6_op with w=8 by ec_cuda, the others by "
                                                f"Ceph's own file ({self.ours})"])
            self.replace_ours()
            self.assertEqual(self.texts(self.of(adopted)), [f"warning: restart it, {self.ours} was replaced on disk"])

    def test_tells_a_daemon_that_started_before_the_directory_changed(self):
        with daemon(self.shared, ["-i", "901"], self.adopted, "20.2.4", self.isa) as process:
            self.assertEqual(self.texts(self.of(process)), [])
            time.sleep(1.1)  # times of files are compared by the second
            self.link(isa=self.ours)
            self.assertEqual(self.texts(self.of(process)), ["warning: isa: restart it, the directory changed after its start"])

    def test_tells_a_daemon_that_started_before_the_way_back(self):
        self.link(isa=self.ours, jerasure=self.ours, cuda=self.ours)
        with daemon(self.shared, ["-i", "901"], self.adopted, "20.2.4", self.ours, self.jerasure) as process:
            time.sleep(1.1)
            self.link(isa=self.isa, jerasure=self.jerasure)
            said = self.of(process)
            self.assertEqual(said["uses"][1:], [f"{name}: as at its start, before the directory changed" for name in ("isa", "jerasure")])
            self.assertEqual(self.texts(said), [f"warning: {name}: restart it, the directory changed after its start"
                                                for name in ("isa", "jerasure")])

    def errors(self, process):
        return [text for text in self.texts(self.of(process)) if text.startswith("error")]

    def test_tells_a_daemon_that_does_not_start_again(self):
        gone = "it does not start again"
        with daemon(self.shared, ["-i", "901"], self.stock, "16.2.15", self.isa, self.jerasure, self.ours) as process:
            self.assertEqual(self.texts(self.of(process)), [])
            for path in (self.ours, self.jerasure):
                before = path.read_bytes()
                for harm in (path.unlink, lambda path=path: path.write_bytes(b"")):
                    harm()
                    self.assertEqual(self.errors(process), [f"error: {path}, which it uses, is not there: {gone}"])
                path.write_bytes(before)
            self.assertEqual(self.errors(process), [])

    def test_knows_that_our_file_need_not_be_there_after_the_way_back(self):
        self.link(isa=self.ours, jerasure=self.ours, cuda=self.ours)
        with daemon(self.shared, ["-i", "901"], self.adopted, "16.2.15", self.ours, self.jerasure) as process:
            time.sleep(1.1)
            self.link(isa=self.isa, jerasure=self.jerasure)
            (self.adopted / "libec_cuda.so").unlink()
            self.assertEqual(self.errors(process), [])
            self.jerasure.unlink()
            self.assertIn(f"error: {self.adopted}/libec_jerasure.so, which it uses, is not there: it does not start again",
                          self.errors(process))

    def test_tells_a_daemon_whose_pools_isa_does_not_take_in_our_place(self):
        page = self.shared / "page"
        for codes, errors in (("isa", []), ("jerasure", [f"error: {self.ours} is not ec_cuda's, and Ceph's isa does not take all of its "
                                                         "pools: it does not start again"])):
            with Child(CHILD) as child:
                child.tell(codes, 1, 0)
                page.write_bytes(child.page())
            with unittest.mock.patch.dict(os.environ, PAGE=str(page)), \
                    daemon(self.shared, ["-i", "901"], self.stock, "16.2.15", self.isa, self.ours) as process:
                self.assertEqual(self.errors(process), [])
                content = self.ours.read_bytes()
                self.ours.unlink()
                self.ours.symlink_to(self.isa)
                self.assertEqual(self.errors(process), errors)
                self.ours.unlink()
                self.ours.write_bytes(content)

    def test_judges_no_daemon_whose_admin_socket_is_silent(self):
        self.link(isa=self.ours, jerasure=self.ours, cuda=self.ours)
        with daemon(self.shared, ["-i", "901"], self.adopted, "16.2.15", self.ours, self.jerasure) as process:
            (self.shared / "ceph-i-901.asok").unlink()
            said = self.of(process)
            self.assertEqual(self.texts(said), ["warning: not judged, because its admin socket does not answer"])
            self.assertEqual(said["uses"], ["erasure_code_dir unknown, its admin socket does not answer"])

    def test_tells_a_daemon_whose_directory_is_gone(self):
        with daemon(self.shared, ["-i", "901"], self.adopted, "20.2.4", self.isa) as process:
            shutil.rmtree(self.adopted)
            said = self.of(process)
            self.assertEqual(self.texts(said), [f"error: its erasure_code_dir {self.adopted} is not there: it does not start again"])
            self.assertTrue(said["adopted"])

    def test_says_danger_where_a_name_leads_to_another_plugin(self):
        danger = "is neither Ceph's own plugin of that name nor one of ec_cuda's that can stand in for it"
        self.link(isa=self.ours, jerasure=self.ours)
        self.ours.write_bytes(b"of version 0.1")
        found = self.doctor()
        self.assertEqual(found["severity"], "error")
        texts = self.texts(found["directory"])
        self.assertTrue(len(texts) == 2 and all(text.startswith("error: DANGER: ") and danger in text for text in texts), texts)
        # Ceph's own isa under our name: right as isa, and not as jerasure.
        self.ours.unlink()
        self.ours.symlink_to(self.isa)
        texts = self.texts(self.doctor()["directory"])
        self.assertTrue(len(texts) == 1 and f"DANGER: {self.adopted}/libec_jerasure.so leads to {self.isa}, which" in texts[0], texts)
        self.link(isa="/nowhere", jerasure=self.jerasure)
        self.assertEqual(self.texts(self.doctor()["directory"]),
                         [f"error: {self.adopted}/libec_isa.so leads nowhere: a daemon that uses it does not start"])

    def test_shows_a_directory_whose_name_is_no_text(self):
        self.adopted = self.adopted.rename(self.shared / "\udcff")
        self.link(isa=self.ours)
        with daemon(self.shared, ["-i", "901"], self.stock, "20.2.4", self.isa) as process:
            self.assertEqual(self.texts(self.of(process)), [f"warning: isa: set erasure_code_dir to {self.shared}/? and restart it"])

    def test_says_what_it_could_not_look_at(self):
        unknown = [f"warning: {path} is not judged: Permission denied" for path in
                   (self.adopted, self.adopted / "libec_isa.so", self.adopted / "libec_jerasure.so")]
        for fault, texts in (("openat2:error=EAGAIN:when=2+2", []), ("openat2:error=EACCES", unknown[:1]),
                             ("openat2:error=EACCES:when=2+", unknown[1:]), ("openat2:error=EAGAIN:when=2..101", [
                                 unknown[1].replace("Permission denied", "Resource temporarily unavailable")])):
            self.assertEqual(self.texts(self.doctor(before=self.failing(fault))["directory"]), texts, fault)
        for command in ("doctor", "stats"):
            done = subprocess.run([*self.failing("getdents64:retval=0"), "-P", "/proc", ECTOOL, command], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (1, "ectool: /proc shows no processes; it must be mounted\n"))

    def test_names_a_process_that_has_no_number(self):
        with daemon(self.shared, ["-f"], self.stock, "20.2.4", self.ours) as process:
            self.replace_ours()
            self.assertEqual([each["do"] for each in self.of(process)["findings"]],
                             [f"restart the service of process {process.pid}, when `ceph osd ok-to-stop` allows it"])

    def test_judges_a_daemon_in_a_container_by_its_own_files(self):
        before = roots(self.shared.parent)
        if before is None:
            self.skipTest("this user cannot make another root directory")
        own = self.shared / "own"
        own.mkdir()
        (own / "libec_isa.so").symlink_to("/shared/stock/libec_cuda.so")  # absolute, and found there alone
        (own / "libec_jerasure.so").symlink_to("/shared/stock/libec_isa.so")
        self.link(isa=self.ours, jerasure=self.ours)  # of the host, which it does not see
        with daemon(self.shared, ["-n", "osd.905"], own, "20.2.4", self.ours, before=before, inside="/shared") as process:
            said = self.of(process)
            self.assertEqual((said["name"], said["release"], said["erasure_code_dir"], said["stands_in_for"]),
                             ("osd.905", "20.2.4", "/shared/own", ["isa"]))
            self.assertNotEqual(said["container"], "")
            self.assertEqual(said["plugins"], [{"path": "/shared/stock/libec_cuda.so", "ours": True, "current": True}])
            self.assertEqual(said["uses"][1], "isa: all techniques by ec_cuda (/shared/stock/libec_cuda.so)")
            danger, note = self.texts(said)
            self.assertTrue(danger.startswith("error: DANGER: /shared/own/libec_jerasure.so leads to "), danger)
            self.assertEqual(note, f"note: jerasure: in a container, which does not see {self.adopted}")
            self.assertFalse(said["adopted"])
            groups, container = self.shared / "groups", "0123456789ab" * 5 + "cdef"
            groups.write_text(f"0::/kubepods/burstable/pod1b2c3d4e-1111-2222-3333-deadbeef0123/{container}\n")
            kubernetes = ["unshare", "--mount", "sh", "-ec", f"mount --bind '{groups}' /proc/{said['pid']}/cgroup; exec \"$@\"", "sh"]
            self.assertEqual(self.of(process, self.doctor(before=kubernetes))["container"], container)
            text = subprocess.run([ECTOOL, "doctor"], stdout=subprocess.PIPE, text=True).stdout
            self.assertRegex(text, r"osd\.905, pid \d+, user 0, Ceph 20\.2\.4, in a container \(.+\):\n")

    def test_shows_a_daemon_whose_pools_ceph_codes_in_our_place(self):
        program = self.shared / "ceph-osd"
        program.symlink_to(os.path.abspath(CHILD))
        for told, passing, portable, by_isa in (([("stock", 0, 0)], True, None, None), ([("isa", 3, 0)], False, True, True),
                                                ([("isa", 3, 0), ("jerasure", 1, 0)], False, True, False),
                                                ([("own", 1, 0)], False, False, False)):
            with Child(program, "-n", "osd.906") as process:
                for words in told:
                    process.tell(*words)
                said = self.of(process)
                self.assertEqual((said["pass_through"], said["portable"], said["served_by_isa"]), (passing, portable, by_isa))
                notes = [text for text in self.texts(said) if "Ceph's own plugin codes in the place of ec_cuda" in text]
                self.assertEqual(len(notes), int(passing))

    def test_says_whether_a_profile_is_portable(self):
        for profile, status, answer in (
                ("k=4 m=2 crush-foo=1", 0, "portable: Ceph's own plugin=isa technique=reed_sol_van writes the same bytes\n"),
                ("k=4\nm=2\nplugin=cuda\ntechnique=jerasure_reed_sol_van\n", 0,
                 "portable: Ceph's own plugin=jerasure technique=reed_sol_van writes the same bytes\n"),
                *((refused, 2, "") for refused in ("k=4 m=2 w=8", "k=4 m=2 backend=nonsense", "k=4 m=2 technique=nonsense", "k=1 m=2",
                                                   "k=200 m=100", "k=40 m=2 w=8")),
                ("k=40 m=2", 3, "not portable: k=40 must be at most 32 with technique=reed_sol_van\n")):
            done = subprocess.run([ECTOOL, "doctor", "--profile", profile], stdout=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stdout), (status, answer))


if __name__ == "__main__":
    unittest.main()
