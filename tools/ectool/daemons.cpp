// What ectool doctor finds by the files of daemons, and by what they answer.
#include <fmt/format.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <regex>
#include <set>
#include <sstream>

#include "tools/common/printable.hpp"
#include "tools/ectool/ectool_doctor.hpp"

namespace ec::tools {
namespace {

using support::Descriptor;
using namespace std::chrono_literals;

constexpr auto time_for_one = 3s;
constexpr auto time_for_an_answer = 1s;
constexpr std::size_t longest_answer = std::size_t{64} << 10;
constexpr std::size_t longest_maps = std::size_t{8} << 20;
constexpr off_t longest_plugin = 256 << 20;
constexpr int most_tries = 100;
constexpr std::string_view own_name = "libec_cuda.so";

/// The plugins of Ceph's that ours stands in for, and what it codes then.
struct Role {
  const char* name;
  const char* codes;
};
constexpr Role roles[] = {
    {"isa", "all techniques by ec_cuda"},
    {"jerasure", "reed_sol_van and reed_sol_r6_op with w=8 by ec_cuda, the others by Ceph's own file"}};

std::string file_of(const Role& role) { return fmt::format("libec_{}.so", role.name); }

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Whether a file is a plugin, by its name. The preload lies beside the plugins, and is none.
bool is_plugin(const std::string& name) {
  return name.starts_with("libec_") && name.find(".so") != name.npos &&
         !name.starts_with("libec_cuda_pinned");
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::string self(const Descriptor& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

/// Its path, as it is seen from here.
std::string target_of(const Descriptor& found) {
  std::array<char, 4096> path{};
  const ssize_t n = readlink(self(found).c_str(), path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

/// A root directory, in which paths are found as they are for who lives there.
class Root {
 public:
  explicit Root(int directory, const char* path)
      : root_(openat(directory, path, O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    struct stat own {
    }, st{};
    is_own_ = root_ && fstat(root_.get(), &st) == 0 && stat("/", &own) == 0 && is_same(st, own);
    if (root_) here_ = target_of(root_);
  }

  explicit operator bool() const { return bool{root_}; }
  bool is_own() const { return is_own_; }
  /// A path that /proc says, which begins at our root where that holds the other one, as after chroot().
  std::string inside(const std::string& path) const {
    return path.starts_with(here_ + "/") ? path.substr(here_.size()) : path;
  }
  /// Found (O_PATH) and not opened; links are followed unless flags say O_NOFOLLOW.
  Descriptor find(const std::string& path, int flags = 0) const {
    open_how how{};
    how.flags = static_cast<unsigned>(O_PATH | O_CLOEXEC | flags);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    // Any rename on the host lets a look-up through .. fail by EAGAIN.
    int fd = -1, tries = 0;
    do fd = static_cast<int>(syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how));
    while (fd < 0 && errno == EAGAIN && ++tries < most_tries);
    Descriptor found(fd);
    // Before Linux 5.6 nobody can follow the links of another root.
    if (!found && errno == ENOSYS && is_own_)
      found = Descriptor(open(path.c_str(), O_PATH | O_CLOEXEC | flags));
    return found;
  }

 private:
  Descriptor root_;
  bool is_own_ = false;
  std::string here_;
};

/// Whether a path that was not found leads nowhere, by errno; after any other error nobody knows.
bool is_absence(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

/// Whether it is our plugin, one that can be loaded under other names, whatever it is called; nothing where
/// the file cannot be opened.
std::optional<bool> is_ours(const Descriptor& found) {
  struct stat st {};
  if (!found || fstat(found.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > longest_plugin)
    return false;
  const Descriptor file(open(self(found).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) return std::nullopt;
  const std::string content = read_some(file.get(), static_cast<std::size_t>(st.st_size));
  return content.find("EC_CUDA_STOCK") != content.npos && content.find("__erasure_code_init") != content.npos;
}

struct PluginDirectory {
  struct stat identity {};
  bool exists = false;
  bool is_missing = false;
  std::set<std::string> stands_in_for;
  std::map<std::string, double> changed;  ///< when the name became what it is, in seconds since 1970
  Json findings = Json::array();
};

PluginDirectory look_at(const Root& root, const std::string& path) {
  PluginDirectory directory;
  const auto say_unknown = [&](const std::string& shown) {
    directory.findings.push_back(finding("adoption", "warning",
                                         fmt::format("{} is not judged: {}", shown, std::strerror(errno)),
                                         "run this as root, on Linux 5.6 or later"));
  };
  const Descriptor found = root.find(path, O_DIRECTORY);
  directory.is_missing = !found && is_absence(errno);
  directory.exists = found && fstat(found.get(), &directory.identity) == 0;
  const Descriptor folder(found ? open(self(found).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  if (!folder && !directory.is_missing) say_unknown(printable(path));
  if (!folder) return directory;
  std::vector<std::string> names;
  support::list_directory(folder.get(), &names);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (!is_plugin(name) || !name.ends_with(".so")) continue;
    const std::string file = path + "/" + name, shown = printable(file);
    struct stat link {};
    if (fstatat(folder.get(), name.c_str(), &link, AT_SYMLINK_NOFOLLOW) != 0) continue;
    directory.changed[name] = seconds(link.st_mtim);
    const Descriptor target = root.find(file);
    if (!target && !is_absence(errno)) {
      say_unknown(shown);
      continue;
    }
    if (!target) {
      directory.findings.push_back(finding("adoption", "error",
                                           shown + " leads nowhere: a daemon that uses it does not start",
                                           "`ec_adopt --undo --apply`, or install what it leads to"));
      continue;
    }
    const Role* const role = std::ranges::find(roles, name, file_of);
    if (role == std::end(roles)) continue;
    const std::string where = root.inside(target_of(target));
    const auto known = is_ours(target);
    if (!known)
      say_unknown(shown);
    else if (*known)
      directory.stands_in_for.insert(role->name);
    else if (!base_name(where).starts_with(name))
      directory.findings.push_back(finding(
          "adoption", "error",
          fmt::format("DANGER: {} leads to {}, which is neither Ceph's own plugin of that name nor one "
                      "of ec_cuda's that can stand in for it: it may code other bytes",
                      shown, printable(where)),
          "`ec_adopt --undo --apply` before any OSD starts; in a container another image"));
  }
  return directory;
}

// --- the admin socket

/// What the process answers there to a command; nothing if somebody else listens, and if the answer is late
/// or too long.
std::optional<std::string> ask(const Descriptor& admin, const Process& process, const Users& users,
                               const std::string& command, const Deadline& deadline) {
  const Descriptor to(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  self(admin).copy(address.sun_path, sizeof address.sun_path - 1);
  ucred whose{};
  socklen_t length = sizeof whose;
  if (!to || connect(to.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockopt(to.get(), SOL_SOCKET, SO_PEERCRED, &whose, &length) != 0 || whose.pid != process.pid() ||
      !users.has(whose.uid) ||
      send(to.get(), command.c_str(), command.size() + 1, MSG_NOSIGNAL) !=
          static_cast<ssize_t>(command.size() + 1))
    return std::nullopt;
  std::string answer;
  std::array<char, 4096> part{};
  for (pollfd ready{to.get(), POLLIN, 0}; poll(&ready, 1, static_cast<int>(deadline.left().count())) > 0;) {
    const ssize_t n = recv(to.get(), part.data(), part.size(), 0);
    if (n < 0) return std::nullopt;
    answer.append(part.data(), static_cast<std::size_t>(n));
    // Four bytes of its length, the first one first, and the text.
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < 4 && i < answer.size(); ++i)
      wanted = wanted << 8 | static_cast<unsigned char>(answer[i]);
    if (answer.size() >= 4 && answer.size() - 4 >= wanted) return answer.substr(4, wanted);
    if (n == 0 || answer.size() > longest_answer) return std::nullopt;
  }
  return std::nullopt;
}

/// The paths *.asok at which the process may listen. Line ends in paths stand as such in /proc/net/unix, so
/// that any user can forge a line: who listens there is to be asked.
std::vector<std::string> admin_sockets(const Process& process, const Deadline& deadline) {
  std::set<std::string> inodes;
  process.each_descriptor(deadline, [&](const std::string&, std::string_view target) {
    constexpr std::string_view before = "socket:[";
    if (target.starts_with(before))
      inodes.emplace(target.substr(before.size(), target.size() - before.size() - 1));
  });
  std::vector<std::string> paths;
  std::istringstream lines(process.read("net/unix", longest_maps));
  for (std::string line, path; std::getline(lines, line);) {
    std::istringstream words(line);
    std::array<std::string, 7> word;  // Num RefCount Protocol Flags Type St Inode, before the path
    for (std::string& each : word) words >> each;
    if (std::getline(words >> std::ws, path) && path.ends_with(".asok") && inodes.contains(word[6]))
      paths.push_back(path);
  }
  return paths;
}

// --- a daemon

/// Its systemd unit, or a name with an id in it, of the control group of a process in a container.
std::string container_of(const Process& process) {
  const std::string groups = process.read("cgroup");
  const auto own = Process::find(getpid());
  if (own && own->read("cgroup") == groups) return "another root directory";
  std::smatch found;
  // Of cephadm's, as /system.slice/system-ceph\x2dFSID.slice/ceph-FSID@osd.3.service/libpod-payload-ID.
  if (std::regex_search(groups, found, std::regex("/(ceph-[^/\n]*@[^/\n]*\\.service)")))
    return printable(found[1]);
  // The last one: in Kubernetes the pod's number comes before the container's.
  if (std::regex_search(groups, found, std::regex(".*/([^/\n]*[0-9a-f]{12}[0-9a-f]*[^/\n]*)")))
    return printable(found[1]);
  return "another root directory";
}

/// Plugins of Ceph's that it has mapped, each once.
Json mapped_plugins(const Process& process, const Root& root) {
  Json plugins = Json::array();
  std::set<std::string> seen;
  std::istringstream maps(process.read("maps", longest_maps));
  for (std::string line; std::getline(maps, line);) {
    const auto at = line.find('/');
    if (at == line.npos || line.find("/libec_", at) == line.npos || !seen.insert(line.substr(at)).second)
      continue;
    std::string path = root.inside(line.substr(at));
    constexpr std::string_view gone = " (deleted)";
    const bool is_current = !path.ends_with(gone);
    if (!is_current) path.resize(path.size() - gone.size());
    const std::string name = base_name(path);
    if (!is_plugin(name)) continue;
    Json ours;
    if (const Descriptor file = is_current ? root.find(path) : Descriptor())
      if (const auto known = is_ours(file)) ours = *known;
    plugins.push_back({{"path", printable(path)}, {"ours", ours}, {"current", is_current}});
  }
  return plugins;
}

/// Seconds since 1970, to the end of the clock's tick.
double started(const Process& process) {
  const std::string stat = process.read("stat");
  std::istringstream words(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string word;
  constexpr int start_time = 20;  // the words after the name
  for (int i = 0; i < start_time; ++i) words >> word;
  timespec now{}, since_boot{};
  // In this order a pause between them makes the start later, and no change of a directory late.
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  clock_gettime(CLOCK_REALTIME, &now);
  return seconds(now) - seconds(since_boot) +
         (1 + std::strtod(word.c_str(), nullptr)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Whether it is our plugin; of one whose file is gone by its name.
bool is_ours(const Json& plugin) {
  return plugin["ours"].is_null() ? base_name(plugin["path"]).starts_with(own_name)
                                  : plugin["ours"].get<bool>();
}

struct Judgement {
  Json& daemon;
  const Process& process;
  const double start;  ///< of the process, in seconds since 1970
  const Root& root;
  const std::string& where;  ///< its erasure_code_dir; empty: unknown
  const PluginDirectory &used, &adopted;
  const std::string& adopted_path;

  void say_all() {
    // What is wrong with the host's adopted directory is said once, and not for each daemon.
    if (daemon["adopted"] == false)
      for (const Json& each : used.findings) daemon["findings"].push_back(each);
    if (where.empty())
      daemon["findings"].push_back(
          finding("admin socket", "warning", "not judged, because its admin socket does not answer",
                  has_number() ? fmt::format("`ceph daemon {} version` says why, or its log", daemon["name"])
                               : "its log says why"));
    else if (used.is_missing)
      say_stuck(fmt::format("its erasure_code_dir {} is not there", printable(where)));
    if (!where.empty() && daemon["name"].get<std::string>().starts_with("osd."))
      for (const Role& role : roles) say_of(role);
    for (const Json& plugin : daemon["plugins"]) {
      const auto path = plugin["path"].get<std::string>();
      const std::string name = base_name(path).substr(0, base_name(path).find(".so") + 3);
      const std::string file = where + "/" + name;
      // A file that stands in for others, or stood in before the directory changed, need not have its own
      // name.
      if (used.exists && is_gone(file) && (!is_ours(plugin) || needs_own_name()))
        say_stuck(fmt::format("{}, which it uses, is not there", printable(file)));
      else if (plugin["current"] == false && is_gone(path))
        say_stuck(fmt::format("{}, which it uses, is not there", path));
      else if (used.exists && name == own_name && daemon["served_by_isa"] == false &&
               is_ours(root.find(file)) == false)
        say_stuck(fmt::format("{} is not ec_cuda's, and Ceph's isa does not take all of its pools",
                              printable(file)));
      else if (plugin["current"] == false)
        say("file", "warning", fmt::format("restart it, {} was replaced on disk", path));
    }
    if (daemon["pass_through"] == true)
      daemon["findings"].push_back(
          finding("release", "note",
                  fmt::format("Ceph's own plugin codes in the place of ec_cuda, which does not know Ceph {}",
                              daemon["release"] == "" ? "of this release" : daemon["release"]),
                  "nothing for the data; for speed install an ec-cuda that knows this release"));
  }

  /// Whether no file with bytes in it has the name; one that may not be looked at is not gone.
  bool is_gone(const std::string& file) const {
    const Descriptor found = root.find(file);
    struct stat st {};
    return found ? fstat(found.get(), &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size == 0)
                 : is_absence(errno);
  }
  /// Whether the name became what it is after the start.
  bool is_late(const std::string& name) const {
    const auto changed = used.changed.find(name);
    return changed != used.changed.end() && changed->second > start;
  }
  /// Of our plugin: whether its pools name it, or nothing says that they do not.
  bool needs_own_name() const {
    const auto is_role_late = [&](const Role& role) { return is_late(file_of(role)); };
    return used.stands_in_for.empty() &&
           (!daemon["portable"].is_null() || std::ranges::none_of(roles, is_role_late));
  }

  void say_of(const Role& role) {
    const Json *ours = nullptr, *own = nullptr;
    for (const Json& plugin : daemon["plugins"]) {
      if (is_ours(plugin))
        ours = &plugin;
      else if (base_name(plugin["path"]).starts_with(file_of(role)))
        own = &plugin;
    }
    const bool stands_in = used.stands_in_for.contains(role.name);
    const bool needs_restart = is_late(file_of(role)) && (stands_in || ours != nullptr);
    const bool by_own =
        own != nullptr && std::string_view(role.name) == "isa";  // ours loads Ceph's jerasure itself
    if (stands_in && ours != nullptr && !needs_restart && !by_own) {
      daemon["uses"].push_back(
          fmt::format("{}: {} ({})", role.name,
                      daemon["pass_through"] == true ? "by Ceph's own file, through ec_cuda" : role.codes,
                      (*ours)["path"]));
      return;
    }
    daemon["uses"].push_back(needs_restart
                                 ? fmt::format("{}: as at its start, before the directory changed", role.name)
                             : own != nullptr ? fmt::format("{}: by Ceph ({})", role.name, (*own)["path"])
                                              : fmt::format("{}: not loaded", role.name));
    if (needs_restart || (stands_in && own != nullptr))
      say("adoption", "warning",
          fmt::format("{}: restart it, the directory changed after its start", role.name));
    else if (!adopted.stands_in_for.contains(role.name) || daemon["adopted"] == true)
      return;
    else if (daemon["container"] == "")
      say("adoption", "warning",
          fmt::format("{}: set erasure_code_dir to {} and restart it", role.name, printable(adopted_path)));
    else
      daemon["findings"].push_back(finding(
          "adoption", "note",
          fmt::format("{}: in a container, which does not see {}", role.name, printable(adopted_path)),
          "adopt in its image: docs/containers.md"));
  }
  void say_stuck(const std::string& text) {
    daemon["findings"].push_back(
        finding("adoption", "error", text + ": it does not start again",
                "before a restart install the missing package, or in a container take another image"));
  }
  /// Whether its command line says which one of its kind it is.
  bool has_number() const { return daemon["name"] != process.program(); }
  void say(const char* check, const char* severity, std::string text) {
    const auto name = daemon["name"].get<std::string>();
    const std::string number = name.substr(name.find('.') + 1), kind = process.program().substr(5);
    const std::string allowed = fmt::format("when `ceph {} ok-to-stop` allows it", kind);
    daemon["findings"].push_back(
        finding(check, severity, std::move(text),
                !has_number() ? fmt::format("restart the service of process {}, {}", process.pid(), allowed)
                : daemon["container"] == ""
                    ? fmt::format("`systemctl restart {}@{}`, {}", process.program(), number, allowed)
                    : fmt::format("`ceph orch daemon restart {}`, or its pod; an image keeps its "
                                  "files, so that another one may be needed",
                                  name)));
  }
};

Json look(const Process& process, const Users& users, const PluginDirectory& adopted,
          const std::string& adopted_path, const Json& stats) {
  const Root root(process.directory(), "root");
  if (!root) throw std::runtime_error("its files cannot be looked at; run this as root");
  const Deadline deadline(time_for_an_answer);
  const auto sockets = admin_sockets(process, deadline);
  // A text of the answer; empty where there is none.
  const auto asked = [&](const char* command, const char* key) {
    std::optional<std::string> answer;
    for (const std::string& path : sockets)
      if (!answer && !deadline.is_over()) answer = ask(root.find(path), process, users, command, deadline);
    const Json said = Json::parse(answer.value_or(""), nullptr, false);
    return said.is_object() && said.contains(key) && said[key].is_string() ? said[key].get<std::string>()
                                                                           : "";
  };
  const std::string directory =
      asked(R"({"prefix": "config get", "var": "erasure_code_dir"})", "erasure_code_dir");
  const PluginDirectory used = directory.empty() ? PluginDirectory() : look_at(root, directory);
  Json daemon{{"pid", process.pid()},
              {"uid", process.user()},
              {"program", process.program()},
              {"name", process.name()},
              {"container", root.is_own() ? "" : container_of(process)},
              {"release", printable(asked(R"({"prefix": "version"})", "version"))},
              {"erasure_code_dir", printable(directory)},
              {"stands_in_for", used.stands_in_for},
              {"adopted", (used.exists && adopted.exists && is_same(used.identity, adopted.identity)) ||
                              (root.is_own() && directory == adopted_path)},
              {"plugins", mapped_plugins(process, root)},
              {"pass_through", false},
              {"portable", nullptr},
              {"served_by_isa", nullptr},
              {"uses", Json::array()},
              {"findings", Json::array()}};
  std::uint64_t isa = 0, jerasure = 0, own = 0;
  for (const Json& entry : stats)
    if (entry["pid"] == process.pid()) {
      if (entry["interface"] == "stock") daemon["pass_through"] = true;
      isa += entry["codes"]["isa"].get<std::uint64_t>();
      jerasure += entry["codes"]["jerasure"].get<std::uint64_t>();
      own += entry["codes"]["own"].get<std::uint64_t>();
    }
  if (isa + jerasure + own != 0) {
    daemon["portable"] = own == 0;
    daemon["served_by_isa"] = jerasure + own == 0;
  }
  daemon["uses"].push_back("erasure_code_dir " + (directory.empty()
                                                      ? "unknown, its admin socket does not answer"
                                                      : printable(directory)));
  Judgement{daemon, process, started(process), root, directory, used, adopted, adopted_path}.say_all();
  return daemon;
}

}  // namespace

Json finding(const char* check, const char* severity, std::string text, std::string advice) {
  return {{"check", check}, {"severity", severity}, {"text", std::move(text)}, {"do", std::move(advice)}};
}

Daemons look_at_daemons(Users::Whom whom, const std::string& adopted_path, const Json& stats,
                        const Deadline& deadline) {
  const Users users(whom);
  const PluginDirectory adopted = look_at(Root(AT_FDCWD, "/"), adopted_path);
  Daemons daemons;
  daemons.directory = {{"path", printable(adopted_path)},
                       {"stands_in_for", adopted.stands_in_for},
                       {"findings", adopted.findings}};
  std::size_t late = 0;
  for (const pid_t pid : Process::all(whom)) {
    const auto process = Process::find(pid);
    if (!process || (process->program() != "ceph-osd" && process->program() != "ceph-mon") ||
        !process->is_of(users))
      continue;
    if (deadline.is_over()) {
      ++late;
      continue;
    }
    try {
      const auto answer = in_child(deadline.within(time_for_one), [&] {
        return look(*process, users, adopted, adopted_path, stats).dump();
      });
      if (process->has_ended()) continue;
      if (!answer) throw std::runtime_error("did not answer in time");
      daemons.found.push_back(Json::parse(*answer));
    } catch (const std::exception& e) {
      if (process->has_ended()) continue;
      daemons.left_out.push_back(fmt::format("{}: {}", process->text(), e.what()));
    }
  }
  if (late != 0) daemons.left_out.push_back(fmt::format("{} daemon(s) for want of time", late));
  return daemons;
}

}  // namespace ec::tools
