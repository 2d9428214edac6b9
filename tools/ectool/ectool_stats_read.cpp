// Finds and reads the stats of other processes, as root beside processes of anybody: see
// process.hpp.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>

#include "tools/common/printable.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace ec::tools {
namespace {

using codec::StatsPage;
using support::Descriptor;
using namespace std::chrono_literals;

/// A daemon has a copy of the plugin or two.
constexpr std::size_t most_copies = 8;
constexpr std::size_t most_descriptors = 1024;
/// More than any form of the page had, and little to read.
constexpr off_t longest_page = 4 << 20;
/// Of all together, as JSON: hundreds of daemons.
constexpr std::size_t most_bytes = std::size_t{4} << 20;
constexpr auto time_for_a_look = 2s;
constexpr const char* unknown_form = "its stats are not in a form that this ectool knows";

/// Whether it can be the page of a process: a file without a name that one of the process's users made, or
/// root before it became one.
bool may_be_page(const struct stat& st, const Process& process) {
  return S_ISREG(st.st_mode) && st.st_nlink == 0 && st.st_size <= longest_page &&
         st.st_size >= static_cast<off_t>(offsetof(StatsPage, backends)) &&
         (st.st_uid == 0 || process.has_user(st.st_uid));
}

/// The descriptors of a process whose files have the name of a page. Throws std::runtime_error if descriptors
/// cannot be seen.
std::vector<std::string> pages_of(const Process& process, const Deadline& deadline) {
  std::vector<std::string> numbers;
  const auto name = fmt::format("/memfd:{} (deleted)", codec::stats_file_name);
  const int error =
      process.each_descriptor(deadline, [&](const std::string& number, std::string_view target) {
        if (target == name && numbers.size() < most_descriptors) numbers.push_back(number);
      });
  if (error == -EACCES)
    throw std::runtime_error(process.text() +
                             " is not this user's: its stats are for its own user and for root");
  if (error != 0)
    throw std::runtime_error(
        fmt::format("{} cannot be looked into: {}", process.text(), std::strerror(-error)));
  return numbers;
}

void read_bytes(const Descriptor& file, void* to, std::size_t bytes) {
  if (pread(file.get(), to, bytes, 0) != static_cast<ssize_t>(bytes)) throw std::runtime_error(unknown_form);
}

/// Throws std::runtime_error that says what is wrong with the file.
Json read(const Descriptor& found) {
  // Not blocking: a lease on the file would have its opening wait.
  const Descriptor file(
      open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) throw std::runtime_error(fmt::format("its stats cannot be read: {}", std::strerror(errno)));
  // Nobody can make it shorter.
  if ((fcntl(file.get(), F_GET_SEALS) & codec::stats_seals) != codec::stats_seals)
    throw std::runtime_error(unknown_form);
  const auto page = std::make_unique<StatsPage>();
  read_bytes(file, page.get(), offsetof(StatsPage, backends));
  if (page->magic != codec::stats_magic) throw std::runtime_error(unknown_form);
  if (page->layout != codec::stats_layout || page->bytes != sizeof *page)
    throw std::runtime_error(fmt::format(
        "they are of ec-cuda {} (layout {}, {} bytes), and this is the ectool of {} (layout {}, {} bytes): "
        "use the one "
        "that came with the plugin",
        printable(page->version), page->layout, page->bytes, EC_VERSION, codec::stats_layout, sizeof *page));
  read_bytes(file, page.get(), sizeof *page);
  return stats_from(*page);
}

/// An entry for each page, and a sentence for what could not be read.
Json look(const Process& process, const std::vector<std::string>& descriptors) {
  Json found = Json::array();
  std::set<std::string> left_out;
  std::set<std::pair<dev_t, ino_t>> seen;
  const std::string name = process.name();
  for (const std::string& number : descriptors) try {
      // The descriptor may be of another file by now. The file that is found here is not opened if it is no
      // page.
      const Descriptor file(openat(process.directory(), ("fd/" + number).c_str(), O_PATH | O_CLOEXEC));
      struct stat st {};
      if (found.size() == most_copies || !file || fstat(file.get(), &st) != 0 ||
          !seen.emplace(st.st_dev, st.st_ino).second)
        continue;
      if (!may_be_page(st, process)) throw std::runtime_error(unknown_form);
      Json entry{{"pid", process.pid()},
                 {"copy", found.size()},
                 {"uid", process.user()},
                 {"program", process.program()},
                 {"name", name}};
      entry.update(read(file));
      found.push_back(std::move(entry));
    } catch (const std::runtime_error& e) {
      left_out.insert(fmt::format("{}: {}", process.text(), e.what()));
    }
  return {{"processes", found}, {"left_out", left_out}};
}

/// look() within the deadline of one process. The bytes that it took.
std::size_t add(StatsOfHost& host, const Process& process, const std::vector<std::string>& descriptors,
                const Deadline& deadline) {
  const auto answer =
      in_child(deadline.within(time_for_a_look), [&] { return look(process, descriptors).dump(); });
  if (!answer) {
    host.left_out.push_back(process.text() + " did not answer in time");
    return 0;
  }
  const Json said = Json::parse(*answer);
  for (const Json& entry : said["processes"]) host.processes.push_back(entry);
  for (const Json& why : said["left_out"]) host.left_out.push_back(why.get<std::string>());
  return answer->size();
}

}  // namespace

StatsOfHost stats_of(pid_t pid, const Deadline& deadline) {
  const auto process = Process::find(pid);
  if (!process) throw std::runtime_error(fmt::format("there is no process {}", pid));
  const auto pages = pages_of(*process, deadline);
  StatsOfHost host;
  add(host, *process, pages, deadline);
  if (!host.processes.empty()) return host;
  throw std::runtime_error(host.left_out.empty()
                               ? process->text() + " has no stats: it has made no codec of ec-cuda yet"
                               : host.left_out.front());
}

StatsOfHost all_stats(Users::Whom whom, const Deadline& deadline) {
  const Users users(whom);
  StatsOfHost host;
  std::size_t late = 0, bytes = 0;
  for (const pid_t pid : Process::all(whom)) try {
      const auto process = Process::find(pid);
      if (!process || !process->is_of(users)) continue;  // it has ended
      const auto pages = pages_of(*process, deadline);
      if (deadline.is_over() || bytes > most_bytes)
        ++late;
      else if (!pages.empty())
        bytes += add(host, *process, pages, deadline);
    } catch (const std::runtime_error&) {
      // Another user's, or it has ended.
    }
  if (late != 0) host.left_out.push_back(fmt::format("{} process(es) for want of time or room", late));
  return host;
}

}  // namespace ec::tools
