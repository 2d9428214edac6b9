// Finds and reads the stats of other processes. It runs as root beside processes of anybody's: see
// ectool_stats.hpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "support/files.hpp"
#include "tools/ectool/ectool_stats.hpp"
#include "tools/ectool/printable.hpp"

namespace ec::tools {
namespace {

using codec::StatsPage;

/// A daemon has a copy of the plugin or two.
constexpr std::size_t most_copies = 8;
constexpr std::size_t longest_name = 64;
constexpr const char* unknown_form = "its stats are not in a form that this ectool knows";

/// Empty if it cannot be read or is very long.
std::string proc_file(pid_t pid, const char* name) {
  std::string text;
  const auto path = fmt::format("/proc/{}/{}", pid, name);
  const bool read =
      support::read_file(AT_FDCWD, path, support::Trust::anyone, 128 << 10, &text, nullptr) == 0;
  return read ? text : std::string();
}

std::string printable(std::string text) {
  text.resize(std::min(text.size(), longest_name));
  make_printable(text);
  return text;
}

std::string program_of(pid_t pid) {
  const std::string comm = proc_file(pid, "comm");
  return printable(comm.substr(0, comm.find('\n')));
}

/// osd.3 of ceph-osd --id 3; else the program.
std::string name_of(pid_t pid, const std::string& program) {
  constexpr std::string_view daemons = "ceph-";
  std::istringstream arguments(program.starts_with(daemons) ? proc_file(pid, "cmdline") : std::string());
  for (std::string argument; std::getline(arguments, argument, '\0');)
    if ((argument == "-i" || argument == "--id") && std::getline(arguments, argument, '\0'))
      return printable(program.substr(daemons.size()) + "." + argument);
  return program;
}

std::runtime_error about(pid_t pid, const std::string& what) {
  const std::string program = program_of(pid);
  return std::runtime_error(
      fmt::format("process {}{}{}", pid, program.empty() ? "" : " (" + program + ")", what));
}

/// Whether it can be of that process: it or its parent made the file, as one of the users that it has, or as
/// root before it became one.
bool may_own(pid_t pid, uid_t owner) {
  const std::string status = proc_file(pid, "status");
  constexpr std::string_view key = "\nUid:";
  const auto line = status.find(key);
  if (owner == 0 || line == std::string::npos) return owner == 0;
  std::istringstream users(status.substr(line + key.size()));
  for (uid_t user = 0; users >> user;)
    if (user == owner) return true;
  return false;
}

/// Whether such a file is one of ours, and not merely called as ours are. Nobody can make it shorter.
bool is_region(const support::Descriptor& file, const struct stat& st, pid_t pid) {
  return (fcntl(file.get(), F_GET_SEALS) & codec::stats_seals) == codec::stats_seals &&
         may_own(pid, st.st_uid) && st.st_size >= static_cast<off_t>(offsetof(StatsPage, backends));
}

void read_bytes(const support::Descriptor& file, void* to, std::size_t bytes) {
  if (pread(file.get(), to, bytes, 0) != static_cast<ssize_t>(bytes)) throw std::runtime_error(unknown_form);
}

/// Throws std::runtime_error that says what is wrong with the file.
Json read(const support::Descriptor& file, const struct stat& st, pid_t pid) {
  const auto page = std::make_unique<StatsPage>();
  if (!is_region(file, st, pid)) throw std::runtime_error(unknown_form);
  read_bytes(file, page.get(), offsetof(StatsPage, backends));
  if (page->magic != codec::stats_magic) throw std::runtime_error(unknown_form);
  make_printable(page->version);
  if (page->layout != codec::stats_layout || page->bytes != sizeof *page)
    throw std::runtime_error(fmt::format(
        "they are of ec-cuda {} (layout {}, {} bytes), and this is the ectool of {} (layout {}, {} bytes): "
        "use the one "
        "that came with the plugin",
        page->version.data(), page->layout, page->bytes, EC_VERSION, codec::stats_layout, sizeof *page));
  read_bytes(file, page.get(), sizeof *page);
  return stats_from(*page);
}

/// By its name alone, without opening it.
bool is_called_region(const std::filesystem::directory_entry& file) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(file.path(), error).native();
  return !error && target == fmt::format("/memfd:{} (deleted)", codec::stats_file_name);
}

}  // namespace

Json stats_of(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}", pid);
  std::error_code error;
  if (!std::filesystem::exists(folder, error))
    throw std::runtime_error(fmt::format("there is no process {}", pid));
  std::filesystem::directory_iterator files(folder / "fd", error);
  if (error == std::errc::permission_denied)
    throw about(pid, " is not this user's: its stats are for its own user and for root");
  if (error) throw about(pid, fmt::format(" cannot be looked into: {}", error.message()));
  const std::string program = program_of(pid), name = name_of(pid, program);
  Json found = Json::array();
  std::set<std::pair<dev_t, ino_t>> seen;
  for (; !error && files != std::filesystem::directory_iterator() && found.size() < most_copies;
       files.increment(error)) {
    if (!is_called_region(*files)) continue;
    // The same descriptor may be another file by now; what is open stays what it is.
    support::Descriptor file;
    struct stat st {};
    std::string why;
    if (support::open_file(AT_FDCWD, files->path(), support::Trust::anyone, &file, &why) != 0 ||
        fstat(file.get(), &st) != 0)
      throw about(pid, fmt::format(": its stats cannot be read: {}", why));
    if (!seen.emplace(st.st_dev, st.st_ino).second) continue;
    Json process{{"pid", pid}, {"copy", found.size()}, {"program", program}, {"name", name}};
    try {
      process.update(read(file, st, pid));
    } catch (const std::runtime_error& e) {
      throw about(pid, fmt::format(": {}", e.what()));
    }
    found.push_back(std::move(process));
  }
  if (found.empty()) throw about(pid, " has no stats: it has made no codec of ec-cuda yet");
  return found;
}

Json all_stats() {
  std::set<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc()) pids.insert(pid);
  }
  Json all = Json::array();
  for (const pid_t pid : pids) try {
      for (Json& process : stats_of(pid)) all.push_back(std::move(process));
    } catch (const std::runtime_error&) {
      // Another user's, ended meanwhile, or nothing to do with us.
    }
  return all;
}

}  // namespace ec::tools
