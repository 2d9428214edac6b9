// Each check of ectool doctor on a made-up host: all is well, and then one thing is wrong, which that check
// says and no other.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>

#include "plugin/codec/routing/calibration.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/folder.hpp"
#include "tools/ectool/ectool_doctor.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using tools::Host;
using tools::Json;
using tools::Severity;
using enum tools::Severity;

constexpr const char* plugins = "usr/lib/x86_64-linux-gnu/ceph/erasure-code";
constexpr std::uint64_t GiB = std::uint64_t{1} << 30;
constexpr std::uint64_t after_everything = 4'000'000'000;  // seconds since 1970

/// A host with two OSDs that share a GPU by MPS.
struct MadeUpHost {
  MadeUpHost() {
    host.root = folder.path();
    host.ceph = "ceph version 16.2.15 (618f44) pacific (stable)";
    host.machine = {"a CPU", {"a GPU"}};
    host.self = {"root", "", 13000, {"a GPU"}, ""};
    host.daemon = {"ceph", "", 13000, {"a GPU"}, ""};
    write(std::string(plugins) + "/libec_cuda.so", "");
    write("proc/driver/nvidia/version", "NVRM version: 580\n");
    write("proc/50/cmdline", std::string("nvidia-cuda-mps-control\0-d\0", 27));
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("etc/ec_cuda/calibration.json",
          to_json(codec::Calibration{"a CPU", "a GPU", "today", codec::default_costs()}));
    for (const int pid : {101, 102}) {
      auto page = std::make_unique<codec::StatsPage>();
      page->version = {'1', '.', '0'};
      page->backends = {{{'c', 'u', 'd', 'a'}, {'x', '8', '6'}}};
      page->interface = {'c', 'l', 'a', 's', 's', 'i', 'c'};
      page->since = after_everything;
      page->device.state = static_cast<std::uint64_t>(kernels::DeviceState::up);
      page->device.shared_by_mps = 1;
      page->arena.arena_bytes = GiB;
      Json process{
          {"pid", pid}, {"copy", 0}, {"program", "ceph-osd"}, {"name", "osd." + std::to_string(pid)}};
      process.update(tools::stats_from(*page));
      host.processes.push_back(process);
      maps(pid, plugins);
      of(pid, "environ", std::string("A=1\0EC_CUDA_PINNED_BYTES=1G\0", 28));
      of(pid, "limits",
         "Limit                     Soft Limit           Hard Limit           Units\n"
         "Max locked memory         8388608              8388608              bytes\n");
      of(pid, "cgroup", "0::/system.slice/ceph-osd.service\n");
    }
    write("sys/fs/cgroup/system.slice/ceph-osd.service/memory.max", "max\n");
  }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder / path).parent_path());
    std::ofstream(folder / path) << text;
  }
  void of(int pid, const std::string& file, const std::string& text) const {
    write("proc/" + std::to_string(pid) + "/" + file, text);
  }
  void maps(int pid, const std::string& place, const std::string& after = "", bool preload = true) const {
    const std::string start = "7f00-7f01 r-xp 00000000 fe:00 1    /";
    of(pid, "maps",
       start + place + "/libec_cuda.so" + after + "\n" +
           (preload ? start + place + "/libec_cuda_pinned.so\n" : ""));
  }
  Json& osd() { return host.processes[0]; }

  Folder folder;
  Host host;
};

struct Illness {
  const char* check;
  Severity severity;
  const char* says;  ///< a part of the text
  std::function<void(MadeUpHost&)> catch_it;
};

const std::vector<Illness>& illnesses() {
  static const std::vector<Illness> all{
      {"validation", error, "osd.101 (101): cuda made wrong bytes 2 time(s)",
       [](auto& h) {
         h.osd()["validation"] = {{{"backend", "cuda"}, {"mismatches", 2}}};
       }},
      {"plugin", error, "for Ceph 16 to 20 and does not load",
       [](auto& h) { h.host.ceph = "ceph version 15.2.1"; }},
      {"plugin", error, "is in no directory of Ceph's plugins",
       [](auto& h) {
         fs::remove_all(h.folder / plugins);
         h.host.processes = Json::array();
       }},
      {"plugin", note, "no ceph-osd", [](auto& h) { h.host.ceph.clear(); }},
      {"directory", error, "libec_isa.so leads nowhere",
       [](auto& h) {
         h.write("var/lib/ec_cuda/erasure-code/mark", "");
         fs::create_symlink("/nowhere", h.folder / "var/lib/ec_cuda/erasure-code/libec_isa.so");
       }},
      {"directory", warning, "plugins from /opt: osd.101 (101)", [](auto& h) { h.maps(101, "opt"); }},
      {"running", warning, "osd.102 (102) runs version 1.0, whose file was replaced",
       [](auto& h) { h.maps(102, plugins, " (deleted)"); }},
      {"running", warning, "1 process(es) run version 0.9", [](auto& h) { h.osd()["version"] = "0.9"; }},
      {"running", warning, "of another layout", [](auto& h) { h.host.unreadable = {"of another layout"}; }},
      {"gpu", warning, "no GPU can be used: CUDA_ERROR_UNKNOWN (NVRM version: 580)",
       [](auto& h) { h.host.self.failure = "CUDA_ERROR_UNKNOWN"; }},
      {"gpu", note, "no NVIDIA driver",
       [](auto& h) {
         h.host.self.failure = "no libcuda.so.1";
         fs::remove_all(h.folder / "proc/driver");
       }},
      {"user", warning, "user ceph cannot use the GPU, and root can: CUDA_ERROR_NO_DEVICE",
       [](auto& h) { h.host.daemon.failure = "CUDA_ERROR_NO_DEVICE"; }},
      {"compiler", note, "NVRTC not found", [](auto& h) { h.host.daemon.no_compiler = "NVRTC not found"; }},
      {"mps", warning,
       "GPU 0: 2 process(es), MPS is running; not in it, so that each waits for all: osd.101 (101)",
       [](auto& h) { h.osd()["device"]["shared_by_mps"] = 0; }},
      {"mps", warning, "GPU 3: 2 process(es), MPS is not running",
       [](auto& h) {
         fs::remove_all(h.folder / "proc/50");
         for (Json& osd : h.host.processes) osd["device"]["shared_by_mps"] = 0;
         for (const int pid : {101, 102}) h.of(pid, "environ", "EC_CUDA_DEVICES=3");
       }},
      {"limits", warning,
       "osd.101 (101): its unit may have 1536 MiB of memory, and the arena alone takes 1024",
       [](auto& h) {
         h.of(101, "cgroup", "0::/small/one\n");
         h.write("sys/fs/cgroup/small/memory.max", std::to_string(3 * GiB / 2));
       }},
      {"limits", warning, "its arena of 1024 MiB was not page-locked; RLIMIT_MEMLOCK is 8388608",
       [](auto& h) { h.osd()["arena"]["bytes"] = 0; }},
      {"arena", warning, "osd.101 (101): 7 buffers found no room in its 1024 MiB",
       [](auto& h) { h.osd()["arena"]["refused"] = 7; }},
      {"preload", note, "osd.101 (101) runs without libec_cuda_pinned.so",
       [](auto& h) { h.maps(101, plugins, "", false); }},
      {"calibration", warning, "another CPU", [](auto& h) { h.host.machine.cpu = "another"; }},
      {"calibration", warning, "cannot be opened",
       [](auto& h) { h.of(102, "environ", "EC_CUDA_CALIBRATION=/nowhere"); }},
      {"calibration", note, "costs are the built-in ones", [](auto& h) { fs::remove_all(h.folder / "etc"); }},
      {"calibration", note, "osd.101 (101) is older than /etc/ec_cuda/calibration.json",
       [](auto& h) { h.osd()["since"] = 1; }},
      {"hugepages", note, "they are off",
       [](auto& h) { h.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"); }},
      {"devices", warning, "osd.101 (101): its GPU is latched off",
       [](auto& h) { h.osd()["device"]["state"] = "latched"; }},
      {"devices", warning, "its GPU did not come up",
       [](auto& h) {
         h.osd()["device"]["state"] = "none";
         h.osd()["device"]["failed_starts"] = 3;
       }},
      {"devices", warning, "5 calls hung, 4096 bytes are given up", [](auto& h) {
         h.osd()["rows"][0]["fallbacks"]["hung"] = 5;
         h.osd()["device"]["given_up_bytes"] = 4096;
       }}};
  return all;
}

TEST(Doctor, FindsNothingWhereAllIsWell) {
  MadeUpHost well;
  const auto found = tools::diagnose(well.host);
  EXPECT_EQ(found.worst, ok) << found.text;
  EXPECT_EQ(found.json["severity"], "ok");
  EXPECT_EQ(found.text.find("do: "), std::string::npos) << found.text;
}

TEST(Doctor, SaysWhatIsWrongAndNothingElse) {
  constexpr const char* names[] = {"ok", "note", "warning", "error"};
  for (const Illness& illness : illnesses()) {
    MadeUpHost ill;
    illness.catch_it(ill);
    const auto found = tools::diagnose(ill.host);
    EXPECT_EQ(found.worst, illness.severity) << found.text;
    EXPECT_NE(found.text.find(illness.says), std::string::npos) << illness.says << '\n' << found.text;
    for (const Json& finding : found.json["findings"]) {
      EXPECT_EQ(finding["severity"] != "ok", finding.contains("advice")) << finding;
      EXPECT_TRUE(finding["check"] == illness.check || finding["severity"] == "ok")
          << illness.says << finding;
    }
    EXPECT_EQ(found.json["severity"], names[static_cast<std::size_t>(illness.severity)]);
  }
}

TEST(Doctor, EveryCheckIsProvoked) {
  std::set<std::string> provoked, checks;
  for (const Illness& illness : illnesses()) provoked.insert(illness.check);
  for (const tools::Check& check : tools::doctor_checks()) checks.insert(check.name);
  EXPECT_EQ(provoked, checks);
}

}  // namespace
}  // namespace ec::test
