// Other processes: see process.hpp.
#include "tools/ectool/process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/lexical_cast/try_lexical_convert.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "tools/common/printable.hpp"

namespace ec::tools {
namespace {

using support::Descriptor;

constexpr std::size_t longest_name = 64;

std::string shown(const std::string& name) { return printable(name.substr(0, longest_name)); }

}  // namespace

Deadline::Milliseconds Deadline::left() const {
  return std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(end_ - Clock::now()));
}

std::optional<std::string> in_child(const Deadline& deadline, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process can be made");
  if (child == 0) {
    std::string answer;
    try {
      answer = "+" + work();
    } catch (const std::exception& e) {
      answer = std::string("-") + e.what();
    }
    for (std::string_view rest = answer; !rest.empty();) {
      const ssize_t n = write(to.get(), rest.data(), rest.size());
      if (n <= 0) _exit(1);
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    _exit(0);
  }
  to = Descriptor();
  std::string answer;
  std::array<char, 65536> part{};
  bool ended = false;
  for (pollfd ready{from.get(), POLLIN, 0}; !ended;) {
    const int n = poll(&ready, 1, static_cast<int>(deadline.left().count()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const ssize_t got = ::read(from.get(), part.data(), part.size());
    ended = got <= 0;
    if (!ended) answer.append(part.data(), static_cast<std::size_t>(got));
  }
  // A child that no signal ends is left to the process that inherits it.
  kill(child, SIGKILL);
  waitpid(child, nullptr, ended ? 0 : WNOHANG);
  if (!ended) return std::nullopt;
  if (answer.empty() || answer[0] != '+')
    throw std::runtime_error(answer.empty() ? "it ended" : answer.substr(1));
  return answer.substr(1);
}

Users::Users(Whom whom) : everyone_(whom == Whom::everyone), users_{0, geteuid()} {
  std::set<uid_t> of_ceph{167, 64045};
  // The file alone: a name service over the network may take its time.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/etc/passwd", "re"), std::fclose);
  while (const passwd* entry = file ? fgetpwent(file.get()) : nullptr)
    if (std::string_view(entry->pw_name) == "ceph")
      users_.insert(entry->pw_uid);
    else
      of_ceph.erase(entry->pw_uid);
  users_.merge(of_ceph);
}

std::string read_some(int file, std::size_t most) {
  std::string text(most, '\0');
  std::size_t got = 0;
  while (got < most) {
    const ssize_t n = ::read(file, text.data() + got, most - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

std::optional<Process> Process::find(pid_t pid) {
  Process process;
  process.pid_ = pid;
  process.directory_ =
      Descriptor(open(fmt::format("/proc/{}", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!process.directory_) return std::nullopt;
  const std::string status = process.read("status");
  // A line's end in a program's name is escaped there.
  constexpr std::string_view key = "\nUid:";
  const auto line = status.find(key);
  if (line == status.npos || status.find("\nState:\tZ") < line) return std::nullopt;
  std::istringstream users(status.substr(line + key.size(), status.find('\n', line + 1) - line - key.size()));
  for (uid_t user = 0; users >> user;) process.users_.push_back(user);
  if (process.users_.size() != 4) return std::nullopt;
  std::rotate(process.users_.begin(), process.users_.begin() + 1,
              process.users_.end());  // real is first there
  const std::string comm = process.read("comm");
  process.program_ = shown(comm.substr(0, comm.find('\n')));
  return process;
}

std::vector<pid_t> Process::all(Users::Whom whom) {
  const Users asked(whom), believed(Users::Whom::believed);
  std::multimap<int, pid_t> by_turn;
  bool is_any = false;
  const Descriptor proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<std::string> names;
  support::list_directory(proc.get(), &names);
  for (const std::string& name : names) {
    pid_t pid = 0;
    if (!boost::conversion::try_lexical_convert(name, pid)) continue;
    const auto process = find(pid);
    is_any = is_any || process;
    if (process && process->is_of(asked))
      by_turn.emplace(2 * !process->is_of(believed) + !process->is_ceph(), pid);
  }
  if (!is_any) throw std::runtime_error("/proc shows no processes; it must be mounted");
  std::vector<pid_t> pids;
  for (const auto& [turn, pid] : by_turn) pids.push_back(pid);
  return pids;
}

bool Process::is_of(const Users& users) const {
  return std::ranges::all_of(users_, [&](uid_t user) { return users.has(user); });
}

bool Process::has_user(uid_t user) const { return std::ranges::count(users_, user) != 0; }

bool Process::has_ended() const {
  const std::string status = read("status");
  const auto line = status.find("\nState:\t");
  return line == status.npos || status.find("\nState:\tZ") == line;
}

std::string Process::text() const { return fmt::format("process {} ({}, user {})", pid_, program_, user()); }

std::string Process::read(const char* name, std::size_t most) const {
  const Descriptor file(openat(directory_.get(), name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  return file ? read_some(file.get(), most) : std::string();
}

std::string Process::name() const {
  if (!is_ceph()) return program_;
  const std::string kind = program_.substr(std::string_view("ceph-").size());
  std::istringstream arguments(read("cmdline"));
  for (std::string argument; std::getline(arguments, argument, '\0');)
    for (const auto& [option, before] : {std::pair<std::string_view, std::string>{"--id", kind + "."},
                                         {"-i", kind + "."},
                                         {"--name", ""},
                                         {"-n", ""}}) {
      std::string value;
      if (argument == option)
        std::getline(arguments, value, '\0');
      else if (argument.starts_with(std::string(option) + "="))
        value = argument.substr(option.size() + 1);
      if (!value.empty()) return shown(before + value);
    }
  return program_;
}

int Process::each_descriptor(const Deadline& deadline,
                             const std::function<void(const std::string&, std::string_view)>& visit) const {
  const Descriptor folder(openat(directory_.get(), "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return -errno;
  std::array<char, 512> target{};
  return support::visit_directory(folder.get(), [&](const char* number) {
    const ssize_t n = readlinkat(folder.get(), number, target.data(), target.size());
    if (n > 0) visit(number, {target.data(), static_cast<std::size_t>(n)});
    return !deadline.is_over();
  });
}

}  // namespace ec::tools
