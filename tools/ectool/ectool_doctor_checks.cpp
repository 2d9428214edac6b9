// The checks of ectool doctor, as a table.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "plugin/codec/routing/calibration.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#include "support/files.hpp"
#include "tools/ectool/ectool_doctor.hpp"
#include "tools/ectool/printable.hpp"

namespace ec::tools {
namespace {

namespace fs = std::filesystem;
using enum Severity;
using Findings = std::vector<Finding>;

constexpr const char* plugin_file = "libec_cuda.so";
constexpr const char* preload_file = "libec_cuda_pinned.so";
constexpr const char* adopted = "var/lib/ec_cuda/erasure-code";
constexpr const char* plugin_places[] = {"usr/lib/x86_64-linux-gnu/ceph/erasure-code",
                                         "usr/lib/aarch64-linux-gnu/ceph/erasure-code",
                                         "usr/lib64/ceph/erasure-code", "usr/lib/ceph/erasure-code"};

/// Empty if it cannot be read.
std::string text_of(const fs::path& path) {
  constexpr std::size_t most = std::size_t{4} << 20;
  std::string text;
  return support::read_file(AT_FDCWD, path, support::Trust::anyone, most, &text, nullptr) == 0 ? text : "";
}

std::string file_of(const Host& host, const Json& process, const char* name) {
  return text_of(host.root / "proc" / process["pid"].dump() / name);
}

std::string name_of(const Json& process) {
  return fmt::format("{} ({})", process["name"].get<std::string>(), process["pid"].dump());
}

bool has_gpu_up(const Json& process) { return process["device"]["state"] == "up"; }

std::uint64_t number(const Json& process, const char* group, const char* name) {
  return process[group][name].get<std::uint64_t>();
}

/// A variable of its environment; nothing if it is not set.
std::optional<std::string> variable(const Host& host, const Json& process, std::string_view name) {
  std::istringstream all(file_of(host, process, "environ"));
  for (std::string entry; std::getline(all, entry, '\0');)
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return std::nullopt;
}

/// Paths of a file name that the process has mapped, as the kernel says them.
std::set<std::string> mapped(const Host& host, const Json& process, const std::string& file) {
  std::set<std::string> paths;
  std::istringstream maps(file_of(host, process, "maps"));
  for (std::string line; std::getline(maps, line);) {
    const auto at = line.find('/');
    if (at == line.npos || line.find("/" + file, at) == line.npos) continue;
    line.erase(0, at);
    make_printable(line);
    paths.insert(line);
  }
  return paths;
}

bool has_preload(const Host& host, const Json& process) {
  return !mapped(host, process, preload_file).empty();
}

/// Otherwise one that says what is well.
Findings or_ok(Findings found, std::string text) {
  if (found.empty()) found.push_back({ok, std::move(text)});
  return found;
}

/// What `look` has to say of each process; else that all is well.
using Look = std::optional<Finding> (*)(const Host&, const Json& process);
Findings each_process(const Host& host, Look look, const char* well) {
  Findings found;
  for (const Json& process : host.processes)
    if (std::optional<Finding> finding = look(host, process)) found.push_back(std::move(*finding));
  return or_ok(std::move(found), well);
}

Findings plugin(const Host& host) {
  if (host.ceph.empty()) return {{note, "there is no ceph-osd on this host"}};
  Findings found;
  int release = 0;
  const auto digit = host.ceph.find_first_of("0123456789");
  if (digit != host.ceph.npos)
    std::from_chars(host.ceph.data() + digit, host.ceph.data() + host.ceph.size(), release);
  if (release < 16 || release > 20)
    found.push_back({error, fmt::format("{}: the plugin is for Ceph 16 to 20 and does not load", host.ceph)});
  for (const char* place : plugin_places)
    if (fs::exists(host.root / place / plugin_file))
      found.push_back({ok, fmt::format("/{}/{}, for {}", place, plugin_file, host.ceph)});
  for (const Json& process : host.processes)
    for (const std::string& path : mapped(host, process, plugin_file))
      if (found.empty()) found.push_back({ok, fmt::format("{}, for {}", path, host.ceph)});
  if (found.empty())
    found.push_back({error, fmt::format("{} is in no directory of Ceph's plugins", plugin_file)});
  return found;
}

Findings directory(const Host& host) {
  Findings found;
  std::error_code error_code;
  for (const auto& entry : fs::directory_iterator(host.root / adopted, error_code))
    if (entry.is_symlink() && !fs::exists(entry.path(), error_code))
      found.push_back(
          {error, fmt::format("/{}/{} leads nowhere: an OSD with erasure_code_dir there does not start",
                              adopted, entry.path().filename().native())});
  std::map<std::string, std::string> users;
  for (const Json& process : host.processes)
    for (const std::string& path : mapped(host, process, plugin_file))
      users[fs::path(path).parent_path()] += " " + name_of(process);
  if (users.size() > 1)
    for (const auto& [where, who] : users)
      found.push_back({warning, fmt::format("plugins from {}:{}", where, who)});
  return or_ok(std::move(found), users.empty()
                                     ? "no process has the plugin loaded"
                                     : fmt::format("all plugins are from {}", users.begin()->first));
}

Findings running(const Host& host) {
  Findings found;
  std::map<std::string, int> versions;
  for (const Json& process : host.processes) {
    const auto version = process["version"].get<std::string>();
    ++versions[version];
    for (const std::string& path : mapped(host, process, plugin_file))
      if (path.ends_with("(deleted)"))
        found.push_back({warning, fmt::format("{} runs version {}, whose file was replaced since",
                                              name_of(process), version)});
  }
  for (const std::string& why : host.unreadable) found.push_back({warning, why});
  if (versions.size() > 1)
    for (const auto& [version, processes] : versions)
      found.push_back({warning, fmt::format("{} process(es) run version {}", processes, version)});
  return or_ok(std::move(found), fmt::format("{} process(es){}", host.processes.size(),
                                             versions.empty() ? "" : ", version " + versions.begin()->first));
}

Findings gpu(const Host& host) {
  std::string module = text_of(host.root / "proc/driver/nvidia/version");
  module.resize(std::min(module.find('\n'), module.size()));
  make_printable(module);
  if (module.empty() && !host.self.failure.empty())
    return {{note, "no NVIDIA driver: the CPU codes everything (" + host.self.failure + ")"}};
  if (!host.self.failure.empty())
    return {{warning, fmt::format("no GPU can be used: {} ({})", host.self.failure, module)}};
  std::string names;
  for (const std::string& name : host.self.gpus) names += (names.empty() ? "" : ", ") + name;
  return {{ok, fmt::format("{}; CUDA {}.{}; {}", names, host.self.cuda / 1000, host.self.cuda % 1000 / 10,
                           module)}};
}

Findings user(const Host& host) {
  if (!host.self.failure.empty()) return {{ok, "there is no GPU to use"}};
  if (host.daemon.failure.empty()) return {{ok, fmt::format("user {} can use the GPU", host.daemon.user)}};
  return {{warning, fmt::format("user {} cannot use the GPU, and {} can: {}", host.daemon.user,
                                host.self.user, host.daemon.failure)}};
}

Findings compiler(const Host& host) {
  if (host.self.failure.empty() && !host.daemon.no_compiler.empty())
    return {{note, "no kernels are generated: " + host.daemon.no_compiler}};
  return {{ok, host.self.failure.empty() ? "NVRTC is there" : "there is no GPU to generate kernels for"}};
}

/// Processes that have a GPU up, by the GPUs that they were told to use.
std::map<std::string, std::vector<const Json*>> by_gpu(const Host& host) {
  std::map<std::string, std::vector<const Json*>> users;
  for (const Json& process : host.processes) {
    if (!has_gpu_up(process)) continue;
    std::istringstream ordinals(variable(host, process, "EC_CUDA_DEVICES").value_or("0"));
    for (std::string ordinal; std::getline(ordinals, ordinal, ',');) {
      make_printable(ordinal);
      users[ordinal].push_back(&process);
    }
  }
  return users;
}

bool is_mps_running(const Host& host) {
  std::error_code error_code;
  for (const auto& entry : fs::directory_iterator(host.root / "proc", error_code))
    if (std::string_view(text_of(entry.path() / "cmdline").c_str()).ends_with("nvidia-cuda-mps-control"))
      return true;
  return false;
}

Findings sharing(const Host& host) {
  const bool mps = is_mps_running(host);
  Findings found;
  for (const auto& [ordinal, users] : by_gpu(host)) {
    std::string without;
    for (const Json* process : users)
      if (number(*process, "device", "shared_by_mps") == 0) without += " " + name_of(*process);
    const auto text = fmt::format("GPU {}: {} process(es), MPS {}", ordinal, users.size(),
                                  mps ? "is running" : "is not running");
    if (users.size() < 2 || without.empty())
      found.push_back({ok, text});
    else
      found.push_back({warning, fmt::format("{}; not in it, so that each waits for all:{}", text, without)});
  }
  return or_ok(std::move(found),
               fmt::format("no process uses a GPU now; MPS {}", mps ? "is running" : "is not running"));
}

/// What the process may have of a resource; "unlimited" or bytes, as /proc says it.
std::string limit(const Host& host, const Json& process, std::string_view name) {
  std::istringstream limits(file_of(host, process, "limits"));
  for (std::string line, soft; std::getline(limits, line);)
    if (line.starts_with(name)) {
      std::istringstream(line.substr(name.size())) >> soft;
      make_printable(soft);
      return soft;
    }
  return "unknown";
}

/// The least that a control group above the process may have.
std::optional<std::uint64_t> memory_limit(const Host& host, const Json& process) {
  const std::string groups = file_of(host, process, "cgroup");
  const auto at = groups.find("0::/");
  if (at == groups.npos) return std::nullopt;
  std::optional<std::uint64_t> least;
  const fs::path top = host.root / "sys/fs/cgroup";
  for (fs::path group = groups.substr(at + 4, groups.find('\n', at) - at - 4); !group.empty();
       group = group.parent_path()) {
    const std::string text = text_of(top / group / "memory.max");
    std::uint64_t bytes = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), bytes).ec == std::errc())
      least = std::min(least.value_or(bytes), bytes);
  }
  return least;
}

std::uint64_t arena_wanted(const Host& host, const Json& process) try {
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  const auto said = variable(host, process, "EC_CUDA_PINNED_BYTES");
  return said ? codec::parse_number("EC_CUDA_PINNED_BYTES", *said, 0, most, true)
              : kernels::cuda::Options().pinned_bytes;
} catch (const codec::SetupError&) {
  return 0;
}

std::optional<Finding> limit_of(const Host& host, const Json& process) {
  if (!has_preload(host, process)) return std::nullopt;
  const std::uint64_t arena = arena_wanted(host, process);
  const auto memory = memory_limit(host, process);
  if (memory && *memory < 2 * arena)
    return Finding{warning,
                   fmt::format("{}: its unit may have {} MiB of memory, and the arena alone takes {}",
                               name_of(process), *memory >> 20, arena >> 20)};
  if (!has_gpu_up(process) || number(process, "arena", "bytes") != 0) return std::nullopt;
  return Finding{warning,
                 fmt::format("{}: its arena of {} MiB was not page-locked; RLIMIT_MEMLOCK is {}",
                             name_of(process), arena >> 20, limit(host, process, "Max locked memory"))};
}
Findings limits(const Host& host) { return each_process(host, limit_of, "none stands against an arena"); }

std::optional<Finding> full_arena(const Host&, const Json& process) {
  const auto refused = number(process, "arena", "refused");
  if (refused == 0) return std::nullopt;
  return Finding{warning, fmt::format("{}: {} buffers found no room in its {} MiB, and the CPU coded them",
                                      name_of(process), refused, number(process, "arena", "bytes") >> 20)};
}
Findings arena(const Host& host) { return each_process(host, full_arena, "none was full"); }

std::optional<Finding> no_preload(const Host& host, const Json& process) {
  if (host.daemon.gpus.empty() || process["interface"] == "" || has_preload(host, process))
    return std::nullopt;
  return Finding{note, fmt::format("{} runs without {}, so that `auto` gives the GPU nothing",
                                   name_of(process), preload_file)};
}
Findings preload(const Host& host) { return each_process(host, no_preload, "no daemon lacks it"); }

/// Seconds since 1970; nothing if there is no such file.
std::optional<std::int64_t> written_at(const fs::path& file) {
  std::error_code error_code;
  const auto time = fs::last_write_time(file, error_code);
  if (error_code) return std::nullopt;
  const auto since = fs::file_time_type::clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

Findings calibration(const Host& host) {
  std::set<std::string> paths{codec::default_calibration};
  for (const Json& process : host.processes)
    if (auto said = variable(host, process, "EC_CUDA_CALIBRATION")) paths.insert(std::move(*said));
  Findings found;
  for (const std::string& path : paths) {
    const fs::path file = host.root / fs::path(path).relative_path();
    const auto written = written_at(file);
    if (path == "none" || (path == codec::default_calibration && !written)) continue;
    const std::string refused = codec::costs_from(file, host.machine).refused;
    found.push_back(
        {refused.empty() ? ok : warning, refused.empty() ? path + " is of this machine" : refused});
    for (const Json& process : host.processes)
      if (written && process["since"].get<std::int64_t>() < *written)
        found.push_back(
            {note, fmt::format("{} is older than {}, and does not know it", name_of(process), path)});
  }
  if (found.empty() && !host.daemon.gpus.empty())
    found.push_back({note, "none: costs are the built-in ones"});
  for (Finding& finding : found) make_printable(finding.text);
  return or_ok(std::move(found), "none, and no GPU to compare with");
}

Findings hugepages(const Host& host) {
  const std::string said = text_of(host.root / "sys/kernel/mm/transparent_hugepage/enabled");
  const auto has_arena = [&](const Json& process) { return has_preload(host, process); };
  if (said.find("[never]") != said.npos && std::ranges::any_of(host.processes, has_arena))
    return {{note, "they are off: an arena is made of pages of 4 KiB"}};
  return {{ok, "no arena lacks them"}};
}

std::optional<Finding> failed_device(const Host&, const Json& process) {
  const Json& device = process["device"];
  std::uint64_t hung = 0;
  for (const Json& row : process["rows"]) hung += row["fallbacks"]["hung"].get<std::uint64_t>();
  std::string what;
  if (device["state"] == "latched") what += ", its GPU is latched off after a fault";
  if (device["state"] == "none" && device["failed_starts"] != 0) what += ", its GPU did not come up";
  if (hung != 0) what += fmt::format(", {} calls hung", hung);
  if (const auto bytes = number(process, "device", "given_up_bytes"); bytes != 0)
    what += fmt::format(", {} bytes are given up to a GPU that hung", bytes);
  if (what.empty()) return std::nullopt;
  return Finding{warning, name_of(process) + ": " + what.substr(2)};
}
Findings devices(const Host& host) { return each_process(host, failed_device, "none failed"); }

std::optional<Finding> wrong_bytes(const Host&, const Json& process) {
  for (const Json& backend : process["validation"])
    if (backend["mismatches"] != 0)
      return Finding{error, fmt::format("{}: {} made wrong bytes {} time(s)", name_of(process),
                                        backend["backend"].get<std::string>(), backend["mismatches"].dump())};
  return std::nullopt;
}
Findings validation(const Host& host) { return each_process(host, wrong_bytes, "no wrong bytes were found"); }

constexpr Check table[] = {
    {"validation", validation, "follow 'Wrong bytes' in docs/operations.md"},
    {"plugin", plugin, "install the plugin of this release: 'Install' in docs/operations.md"},
    {"directory", directory, "`ec_adopt --check` says which OSD uses what; restart those that are behind"},
    {"running", running, "restart these daemons one at a time, each when `ceph osd ok-to-stop` allows it"},
    {"gpu", gpu, "`nvidia-smi` as root must show the GPU; daemons find it by themselves once it does"},
    {"user", user, "let that user read and write /dev/nvidia*, and its unit see them (PrivateDevices=no)"},
    {"compiler", compiler, "install libnvrtc.so of the driver's CUDA release and restart the daemons"},
    {"mps", sharing, "start MPS before the OSDs and restart these: 'MPS' in docs/operations.md"},
    {"limits", limits, "lower EC_CUDA_PINNED_BYTES, or raise MemoryMax= of the unit"},
    {"arena", arena, "raise EC_CUDA_PINNED_BYTES, or set bluestore_default_buffered_read=false"},
    {"preload", preload, "load it into the OSDs: 'The preload' in docs/operations.md"},
    {"calibration", calibration, "call `ectool calibrate` on an idle machine, then restart the daemons"},
    {"hugepages", hugepages, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
    {"devices", devices,
     "look for Xid in the kernel's log; restart the daemon, under MPS all of the host, one at a time"}};

}  // namespace

std::span<const Check> doctor_checks() { return table; }

}  // namespace ec::tools
