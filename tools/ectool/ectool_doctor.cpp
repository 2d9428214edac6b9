// What ectool doctor looks at, and how it says what it found.
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "support/files.hpp"
#include "tools/ectool/ectool_device.hpp"
#include "tools/ectool/ectool_doctor.hpp"
#include "tools/ectool/printable.hpp"

namespace ec::tools {
namespace {

constexpr const char* severity_names[] = {"ok", "note", "warning", "error"};

/// In a child that has one thread: from now on it is that user.
void become(const std::string& user) {
  const passwd* entry = getpwnam(user.c_str());
  if (entry == nullptr || initgroups(entry->pw_name, entry->pw_gid) != 0 || setgid(entry->pw_gid) != 0 ||
      setuid(entry->pw_uid) != 0)
    _exit(1);
}

std::string own_name() {
  const passwd* entry = getpwuid(geteuid());
  return entry == nullptr ? std::to_string(geteuid()) : entry->pw_name;
}

/// Of the first ceph-osd that runs; else ceph, where there is such a user; else this one.
std::string user_of_daemons(const Json& processes) {
  for (const Json& process : processes) {
    struct stat st {};
    if (process["interface"] == "" || stat(fmt::format("/proc/{}", process["pid"].dump()).c_str(), &st) != 0)
      continue;
    if (const passwd* entry = getpwuid(st.st_uid)) return entry->pw_name;
  }
  return getpwnam("ceph") != nullptr ? "ceph" : own_name();
}

std::string first_line_of(const char* command) {
  std::array<char, 256> line{};
  std::FILE* output = popen(command, "r");
  if (output == nullptr) return {};
  if (std::fgets(line.data(), line.size(), output) == nullptr) line = {};
  pclose(output);
  std::string text = line.data();
  text.resize(std::min(text.find('\n'), text.size()));
  make_printable(text);
  return text;
}

/// Processes that have our plugin and whose stats cannot be read, with the reason.
std::vector<std::string> unreadable_processes(const Json& readable) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    std::string maps;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc() ||
        std::ranges::any_of(readable, [&](const Json& p) { return p["pid"] == pid; }) ||
        support::read_file(AT_FDCWD, entry.path() / "maps", support::Trust::anyone, std::size_t{4} << 20,
                           &maps, nullptr) != 0 ||
        maps.find("/libec_cuda.so") == std::string::npos)
      continue;
    try {
      stats_of(pid);
    } catch (const std::runtime_error& e) {
      // Loaded and not used, as in a monitor.
      if (std::string_view(e.what()).find("has no stats") == std::string_view::npos)
        found.emplace_back(e.what());
    }
  }
  return found;
}

}  // namespace

Probe probe_gpus(const std::string& user) {
  constexpr unsigned seconds = 20;
  Probe probe;
  probe.user = user.empty() ? own_name() : user;
  probe.failure = fmt::format("the driver did not answer in {} s", seconds);
  int ends[2];
  if (pipe(ends) != 0) return probe;
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
    if (!user.empty() && user != own_name()) become(user);
    fill_probe(&probe);
    const std::string text = Json{
        {"failure", probe.failure},
        {"cuda", probe.cuda},
        {"gpus", probe.gpus},
        {"no_compiler",
         probe.no_compiler}}.dump();
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; child > 0 && (n = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  if (const Json answer = Json::parse(text, nullptr, false); answer.is_object()) {
    answer.at("failure").get_to(probe.failure);
    answer.at("cuda").get_to(probe.cuda);
    answer.at("gpus").get_to(probe.gpus);
    answer.at("no_compiler").get_to(probe.no_compiler);
  } else if (WIFEXITED(status)) {
    probe.failure = "this user may not become that one";
  }
  return probe;
}

Host look_at_host() {
  Host host;
  host.processes = all_stats();
  host.unreadable = unreadable_processes(host.processes);
  host.ceph = first_line_of("ceph-osd --version 2>/dev/null");
  host.machine = codec::this_machine();
  host.self = probe_gpus("");
  const std::string user = user_of_daemons(host.processes);
  host.daemon = geteuid() == 0 && user != host.self.user ? probe_gpus(user) : host.self;
  return host;
}

Diagnosis diagnose(const Host& host) {
  Diagnosis diagnosis;
  Json findings = Json::array();
  for (const Check& check : doctor_checks()) {
    bool advise = false;
    for (const Finding& finding : check.look(host)) {
      const char* severity = severity_names[static_cast<std::size_t>(finding.severity)];
      diagnosis.worst = std::max(diagnosis.worst, finding.severity);
      diagnosis.text += fmt::format("{:8} {:12} {}\n", severity, check.name, finding.text);
      Json& entry =
          findings.emplace_back(Json{{"check", check.name}, {"severity", severity}, {"text", finding.text}});
      if (finding.severity == Severity::ok) continue;
      entry["advice"] = check.advice;
      advise = true;
    }
    if (advise) diagnosis.text += fmt::format("{:21} do: {}\n", "", check.advice);
  }
  diagnosis.json = {{"severity", severity_names[static_cast<std::size_t>(diagnosis.worst)]},
                    {"findings", findings}};
  return diagnosis;
}

}  // namespace ec::tools
