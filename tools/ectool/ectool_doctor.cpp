// What ectool doctor finds by the stats of processes, and how it says it.
#include "tools/ectool/ectool_doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <sstream>

#include "plugin/ceph/portable.hpp"
#include "plugin/ceph/profile.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "tools/common/printable.hpp"

namespace ec::tools {
namespace {

constexpr std::array<const char*, 4> severities{"ok", "note", "warning", "error"};

std::string name_of(const Json& process) { return fmt::format("{} ({})", process["name"], process["pid"]); }

std::uint64_t number(const Json& process, const char* group, const char* name) {
  return process[group][name].get<std::uint64_t>();
}

std::string wrong_bytes(const Json& process) {
  std::string what;
  for (const Json& backend : process["validation"])
    if (backend["mismatches"] != 0)
      what += fmt::format(", {} made wrong bytes {} time(s)", backend["backend"], backend["mismatches"]);
  return what;
}

std::string failed_device(const Json& process) {
  const Json& device = process["device"];
  std::uint64_t hung = 0;
  for (const Json& row : process["rows"]) hung += row["fallbacks"]["hung"].get<std::uint64_t>();
  std::string what;
  if (device["state"] == "latched") what += ", its GPU is latched off after a fault";
  if (device["state"] == "none" && device["failed_starts"] != 0) what += ", its GPU did not come up";
  if (hung != 0) what += fmt::format(", {} calls hung", hung);
  if (const auto bytes = number(process, "device", "given_up_bytes"); bytes != 0)
    what += fmt::format(", {} bytes are given up to a GPU that hung", bytes);
  return what;
}

std::string full_arena(const Json& process) {
  const auto refused = number(process, "arena", "refused");
  return refused == 0
             ? ""
             : fmt::format(", {} buffers found no room in its arena of {} MiB, and the CPU coded them",
                           refused, number(process, "arena", "bytes") >> 20);
}

/// What is said of a process by itself.
struct ProcessCheck {
  const char* name;
  const char* severity;
  std::string (*look)(const Json& process);  ///< empty: nothing; else ", " before each thing
  const char* advice;
};
constexpr ProcessCheck checks[] = {
    {"bytes", "error", wrong_bytes, "follow 'Wrong bytes' in docs/operations.md"},
    {"device", "warning", failed_device,
     "look for Xid in the kernel's log; restart the daemon, under MPS all of the host, one at a time"},
    {"arena", "warning", full_arena,
     "raise EC_CUDA_PINNED_BYTES, or set bluestore_default_buffered_read=false"}};

/// Processes that use a GPU beside others and not under MPS.
std::optional<Json> sharing(const Json& processes) {
  std::size_t users = 0;
  std::string without;
  for (const Json& process : processes) {
    if (process["device"]["state"] != "up") continue;
    ++users;
    if (number(process, "device", "shared_by_mps") == 0) without += " " + name_of(process);
  }
  if (users < 2 || without.empty()) return std::nullopt;
  return finding(
      "mps", "warning",
      fmt::format("{} processes use a GPU; not under MPS, so that each waits for all on its GPU:{}", users,
                  without),
      "start MPS before the daemons and restart these: 'MPS' in docs/operations.md");
}

std::optional<Json> versions(const Json& processes) {
  std::map<std::string, unsigned> running;
  for (const Json& process : processes) ++running[process["version"].get<std::string>()];
  if (running.size() < 2) return std::nullopt;
  std::string all;
  for (const auto& [version, count] : running) all += fmt::format(", {} of version {}", count, version);
  return finding("version", "warning", "processes run" + all.substr(1),
                 "restart those that are behind, one at a time, each when `ceph osd ok-to-stop` allows it");
}

void add_text(std::string* text, const Json& findings, const char* before) {
  for (const Json& each : findings)
    *text += fmt::format("{0}{1:8} {2:9} {3}\n{0}{4:18} do: {5}\n", before, each["severity"], each["check"],
                         each["text"], "", each["do"]);
}

/// What is to be said of processes by their stats, as a list of finding().
Json findings_of(const Json& processes) {
  Json findings = Json::array();
  for (const ProcessCheck& check : checks)
    for (const Json& process : processes)
      if (const std::string what = check.look(process); !what.empty())
        findings.push_back(
            finding(check.name, check.severity, name_of(process) + ": " + what.substr(2), check.advice));
  for (const auto& each : {sharing(processes), versions(processes)})
    if (each) findings.push_back(*each);
  return findings;
}

}  // namespace

const char* const doctor_help = R"(
doctor says of each ceph-osd and ceph-mon of this host, in containers too, what codes its pools, and what is
wrong and in no log; as root it sees all of them. It takes at most 10 seconds. Exit status: 0 nothing to do,
3 a warning, 4 an error (wrong bytes, a plugin that may code other bytes, a daemon that will not start).
--json is what `ec_adopt` goes by:
  severity    the worst of all: ok, note, warning, error
  directory   of ec_adopt: path, stands_in_for (isa, jerasure), findings
  daemons     pid, uid, program, name (osd.3), container ("" for none), release ("" if its admin socket does not
              answer), erasure_code_dir (as the daemon sees it), stands_in_for (there), adopted (whether that is
              the directory above), plugins (mapped: path, ours, or null where the file is gone; current: false
              if it was replaced on disk), pass_through
              (Ceph's own plugin codes in the place of ours), portable (whether Ceph's own could take over all
              codes made so far of plugin=cuda; null: none made), served_by_isa (whether its isa alone could),
              uses (sentences), findings
  findings    of processes by their stats
  daemons_left_out, left_out  sentences on daemons that could not be looked at, and on stats that could not be read
Each finding has check, severity, text and do.
With --profile, as 'k=4 m=2 technique=cauchy', it says whether Ceph's own plugins could take over a pool of that
profile of plugin=cuda: exit status 0, 3 if they could not, or 2 if no pool can have it.
)";

std::string answer_on_profile(const std::string& text, bool* is_portable) {
  std::map<std::string, std::string> profile;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    word = printable(word);
    const auto equals = word.find('=');
    if (equals == word.npos) throw codec::SetupError(EINVAL, "--profile: " + word + " is not key=value");
    if (!profile.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      throw codec::SetupError(EINVAL, "--profile: " + word.substr(0, equals) + " is given twice");
  }
  if (const auto plugin = profile.find("plugin"); plugin != profile.end() && plugin->second != "cuda")
    throw codec::SetupError(EINVAL, "--profile: plugin=" + plugin->second + " must be cuda, or not be there");
  auto parsed = profile;
  ceph::parse_profile(ceph::Role::own, parsed, 20, true);  // refuses what no pool has
  const auto found = ceph::portability(profile);
  *is_portable = bool{found};
  if (!found) return fmt::format("not portable: {}\n", found.why_not);
  return fmt::format("portable: Ceph's own plugin={} technique={} writes the same bytes\n", found.plugin,
                     found.technique);
}

Json diagnose(const Daemons& daemons, const StatsOfHost& stats) {
  Json said{{"severity", ""},
            {"directory", daemons.directory},
            {"daemons", daemons.found},
            {"findings", findings_of(stats.processes)},
            {"daemons_left_out", daemons.left_out},
            {"left_out", stats.left_out}};
  std::size_t worst = daemons.left_out.empty() && stats.left_out.empty() ? 0 : 2;
  const auto count = [&](const Json& findings) {
    for (const Json& each : findings)
      worst =
          std::max<std::size_t>(worst, std::ranges::find(severities, each["severity"]) - severities.begin());
  };
  count(said["findings"]);
  count(said["directory"]["findings"]);
  for (const Json& daemon : said["daemons"]) count(daemon["findings"]);
  said["severity"] = severities[worst];
  return said;
}

std::string text_of(const Json& diagnosis) {
  std::string text;
  const Json& directory = diagnosis["directory"];
  for (const Json& name : directory["stands_in_for"])
    text += fmt::format("{} stands in for {}\n", directory["path"], name);
  add_text(&text, directory["findings"], "");
  for (const Json& daemon : diagnosis["daemons"]) {
    const Json &release = daemon["release"], &container = daemon["container"];
    text += fmt::format("{}, pid {}, user {}, Ceph {}{}:\n", daemon["name"], daemon["pid"], daemon["uid"],
                        release == "" ? "unknown" : release,
                        container == "" ? "" : fmt::format(", in a container ({})", container));
    for (const Json& use : daemon["uses"]) text += fmt::format("  {}\n", use);
    if (daemon["portable"] != nullptr)
      text += fmt::format("  Ceph's own plugins could take over {} pools of plugin=cuda that it has served\n",
                          daemon["portable"] == true ? "all" : "not all");
    add_text(&text, daemon["findings"], "  ");
  }
  if (diagnosis["daemons"].empty())
    text += "no ceph-osd or ceph-mon that is believed (--all: any) runs here\n";
  add_text(&text, diagnosis["findings"], "");
  for (const char* key : {"daemons_left_out", "left_out"})
    for (const Json& why : diagnosis[key]) text += fmt::format("left out: {}\n", why);
  if (diagnosis["severity"] == "ok") text += "nothing is wrong\n";
  return text;
}

}  // namespace ec::tools
