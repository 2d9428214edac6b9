// ectool: what processes have done, and what is wrong on this host.
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "plugin/codec/settings/settings.hpp"
#include "support/files.hpp"
#include "tools/common/command_line.hpp"
#include "tools/ectool/ectool_doctor.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace {

using namespace ec::tools;

struct Options {
  std::vector<std::string> words;
  std::string directory;
  std::optional<std::string> output, profile;
  bool is_json = false;
  bool is_prometheus = false;
  bool is_of_all = false;

  Users::Whom whom() const { return is_of_all ? Users::Whom::everyone : Users::Whom::believed; }
};

/// For all that is looked at.
constexpr std::chrono::seconds time_for_all{6};

int doctor(const Options& given) {
  if (!given.words.empty()) throw UsageError(fmt::format("doctor takes no {}", given.words.front()));
  if (given.profile && given.is_json) throw UsageError("--profile answers in words and takes no --json");
  if (given.profile) {
    bool is_portable = false;
    std::cout << answer_on_profile(*given.profile, &is_portable);
    return is_portable ? 0 : 3;
  }
  const Deadline deadline(time_for_all);
  const auto stats = all_stats(given.whom(), deadline.within(time_for_all / 2));
  if (!given.directory.starts_with('/'))
    throw UsageError(fmt::format("doctor: --directory {} must be an absolute path", given.directory));
  const Json found =
      diagnose(look_at_daemons(given.whom(), given.directory, stats.processes, deadline), stats);
  std::cout << (given.is_json ? found.dump(1) + "\n" : text_of(found));
  return found["severity"] == "error" ? 4 : found["severity"] == "warning" ? 3 : 0;
}

int stats(const Options& given) {
  const auto& words = given.words;
  if (words.size() > 1) throw UsageError(fmt::format("stats takes one PID or none, and no {}", words[1]));
  if (given.is_json && given.is_prometheus)
    throw UsageError("--json and --prometheus are two forms of the same");
  // Renamed over, a device, a pipe or a link would be gone.
  struct stat there {};
  if (given.output &&
      (given.output->empty() || (lstat(given.output->c_str(), &there) == 0 && !S_ISREG(there.st_mode))))
    throw UsageError(fmt::format("stats: --output '{}' must be a regular file, or a new one", *given.output));
  const Deadline deadline(time_for_all);
  auto found =
      words.empty()
          ? all_stats(given.whom(), deadline)
          : stats_of(static_cast<pid_t>(ec::codec::parse_number("PID", words[0], 1, 1 << 22)), deadline);
  std::string text;
  if (given.is_prometheus) {
    text = prometheus_of(found);
    for (const std::string& why : found.left_out) fmt::print(stderr, "left out: {}\n", why);
  } else if (given.is_json || !words.empty()) {
    text = Json{{"processes", found.processes}, {"left_out", found.left_out}}.dump(1) + "\n";
  } else {
    text = list_of(found);
  }
  if (!given.output) {
    std::cout << text;
    return 0;
  }
  if (const int error = ec::support::replace_file(AT_FDCWD, *given.output, text, 0644); error != 0)
    throw std::runtime_error(fmt::format("{} cannot be written: {}", *given.output, std::strerror(-error)));
  return 0;
}

/// Commands return the exit status. A SetupError from a command says that the command line is wrong.
constexpr Command<int(const Options&)> commands[] = {{"doctor", doctor, " json all directory profile "},
                                                     {"stats", stats, " json prometheus output all "}};

int run(int argc, char** argv) {
  options::options_description description(
      "ectool doctor [--json] [--all] [--directory DIRECTORY] | doctor --profile KEYS | "
      "stats [PID] [--json | --prometheus] [--output FILE] [--all]");
  Options given;
  auto add = description.add_options();
  add("output", optional(&given.output), "stats: a regular file, which is replaced as a whole, or a new one");
  add("json", options::bool_switch(&given.is_json),
      "doctor: the same as JSON. stats: everything about each process, as with a PID; without both a line "
      "for each process");
  add("prometheus", options::bool_switch(&given.is_prometheus),
      "stats: the same in Prometheus' text format, for node_exporter's textfile collector");
  add("all", options::bool_switch(&given.is_of_all),
      "doctor, stats: processes of all users. Without it processes of root, of this user and of Ceph's "
      "are believed");
  add("directory", options::value(&given.directory)->default_value(adopted_directory),
      "doctor: the one that `ec_adopt` made on this host");
  add("profile", optional(&given.profile),
      "doctor: say of this profile alone, as 'k=4 m=2', whether Ceph's own plugins could serve it");
  const auto* const command =
      parse(argc, argv, description, &given.words, commands, "ectool " EC_VERSION, doctor_help);
  if (command == nullptr) return 0;
  try {
    const int status = command->run(given);
    flush_output();
    return status;
  } catch (const ec::codec::SetupError& e) {
    throw UsageError(fmt::format("{}: {}", command->name, e.what()));
  }
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& e) {
  std::cerr << "ectool: " << e.what() << '\n';
  return dynamic_cast<const UsageError*>(&e) != nullptr ? 2 : 1;
}
