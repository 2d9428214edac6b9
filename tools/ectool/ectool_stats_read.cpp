#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "plugin/codec/stats/stats_region.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace ec::tools {
namespace {

using codec::StatsPage;

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (file_ >= 0) close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  explicit operator bool() const { return file_ >= 0; }
  bool is_regular() const {
    struct stat s {};
    return fstat(file_, &s) == 0 && S_ISREG(s.st_mode);
  }
  /// Whether there were that many.
  bool read(void* to, std::size_t bytes) const {
    return pread(file_, to, bytes, 0) == static_cast<ssize_t>(bytes);
  }

 private:
  int file_;
};

std::string program_of(pid_t pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return name;
}

/// Whoever made the page may have put anything there.
template <std::size_t n>
void make_printable(std::array<char, n>& text) {
  text.back() = '\0';
  for (char& c : text)
    if (c != '\0' && std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
}

std::runtime_error about(pid_t pid, const std::string& what) {
  const std::string program = program_of(pid);
  return std::runtime_error(
      fmt::format("process {}{}{}", pid, program.empty() ? "" : " (" + program + ")", what));
}

/// Throws what stats_of() throws.
ProcessStats read(pid_t pid, const std::filesystem::path& place) {
  const File file(place);
  if (!file) throw about(pid, fmt::format(": its counters cannot be read: {}", std::strerror(errno)));
  ProcessStats stats{.pid = pid, .program = program_of(pid), .page = {}};
  StatsPage& page = stats.page;
  if (!file.is_regular() || !file.read(&page, offsetof(StatsPage, backends)) ||
      page.magic != codec::stats_magic)
    throw about(pid, ": its counters are not in a form that this ectool knows");
  make_printable(page.version);
  if (page.layout != codec::stats_layout || page.bytes != sizeof page)
    throw about(
        pid, fmt::format(
                 " has the counters of ec-cuda {} (layout {}, {} bytes), and this is the ectool of {} "
                 "(layout {}, {} bytes): use the one that came with the plugin",
                 page.version.data(), page.layout, page.bytes, EC_VERSION, codec::stats_layout, sizeof page));
  if (!file.read(&page, sizeof page)) throw about(pid, ": its counters are cut short");
  make_printable(page.version);
  for (auto& name : page.backends) make_printable(name);
  return stats;
}

bool is_region(const std::filesystem::directory_entry& file) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(file.path(), error).native();
  // " (deleted)" follows.
  return !error && target.starts_with(fmt::format("/memfd:{} ", codec::stats_region_name));
}

}  // namespace

std::vector<ProcessStats> stats_of(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}", pid);
  std::error_code error;
  if (!std::filesystem::exists(folder, error))
    throw std::runtime_error(fmt::format("there is no process {}", pid));
  std::filesystem::directory_iterator files(folder / "fd", error);
  if (error == std::errc::permission_denied)
    throw about(pid, " is not this user's: its counters are for its own user and for root");
  if (error) throw about(pid, fmt::format(" cannot be looked into: {}", error.message()));
  std::vector<ProcessStats> found;
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error))
    if (is_region(*files)) found.push_back(read(pid, files->path()));
  if (found.empty()) throw about(pid, " has no counters: it has made no codec of ec-cuda yet");
  return found;
}

std::vector<ProcessStats> all_stats() {
  std::vector<ProcessStats> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    try {
      std::ranges::move(stats_of(pid), std::back_inserter(all));
    } catch (const std::runtime_error&) {
      // Another user's, ended meanwhile, or nothing to do with us.
    }
  }
  std::ranges::sort(all, {}, &ProcessStats::pid);
  return all;
}

}  // namespace ec::tools
