// Ceph's own logging has another binary form in each release. A log file is known by its open descriptor:
// every write appends, so a line of ours stands between two of the daemon's.
#include "plugin/ceph/daemon_log.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>

namespace ec::ceph {
namespace {

namespace fs = std::filesystem;

/// The descriptor of the daemon's log; -1 where there is none.
int daemon_log() {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const fs::path file = fs::read_symlink(entry.path(), gone);
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (is_daemon_log(file) && (fcntl(descriptor, F_GETFL) & O_APPEND) != 0) return descriptor;
  }
  return -1;
}

/// Whether the line has not been written before.
bool is_news(const std::string& line) {
  static std::mutex mutex;
  static auto* told = new std::set<std::string>;  // lives as long as the process, whatever ends first
  const std::lock_guard lock(mutex);
  return told->insert(line).second;
}

}  // namespace

bool is_daemon_log(const std::string& path) noexcept {
  std::string_view name = path;
  name.remove_prefix(name.rfind('/') + 1);
  if (!name.ends_with(".log")) return false;
  for (const std::string_view daemon : {"osd.", "mon."})
    if (const auto at = name.rfind(daemon); at != name.npos && (at == 0 || name[at - 1] == '-')) return true;
  return false;
}

void tell(const std::string& line) noexcept try {
  if (!is_news(line)) return;
  std::fprintf(stderr, "%s\n", line.c_str());
  const int log = daemon_log();
  if (log < 0) return;
  const std::string entry =
      fmt::format("{:%Y-%m-%dT%H:%M:%S%z} -1 {}\n", fmt::localtime(std::time(nullptr)), line);
  [[maybe_unused]] const auto written = ::write(log, entry.data(), entry.size());
} catch (const std::exception&) {
  // Memory, or /proc.
}

}  // namespace ec::ceph
