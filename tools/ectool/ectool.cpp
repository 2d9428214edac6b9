// ectool: what processes have done, and what is wrong on this host.
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#include "support/files.hpp"
#include "tools/ectool/ectool_doctor.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace {

namespace options = boost::program_options;
using Words = std::vector<std::string>;
using Given = options::variables_map;

/// Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string output_of(const Given& given) {
  return given.contains("output") ? given["output"].as<std::string>() : std::string();
}

/// For all that is looked at.
constexpr std::chrono::seconds time_for_all{6};

ec::tools::Users::Whom whom(const Given& given) {
  using enum ec::tools::Users::Whom;
  return given.contains("all") ? everyone : believed;
}

int doctor(const Words& words, const Given& given) {
  if (!words.empty()) throw UsageError(fmt::format("doctor takes no {}", words.front()));
  if (given.contains("profile")) {
    bool is_portable = false;
    std::cout << ec::tools::answer_on_profile(given["profile"].as<std::string>(), &is_portable);
    return is_portable ? 0 : 3;
  }
  const ec::tools::Deadline deadline(time_for_all);
  const auto stats = ec::tools::all_stats(whom(given), deadline.within(time_for_all / 2));
  const auto directory = given["directory"].as<std::string>();
  if (!directory.starts_with('/'))
    throw UsageError(fmt::format("doctor: --directory {} must be an absolute path", directory));
  const ec::tools::Json found =
      ec::tools::diagnose(look_at_daemons(whom(given), directory, stats.processes, deadline), stats);
  std::cout << (given.contains("json") ? found.dump(1) + "\n" : ec::tools::text_of(found));
  return found["severity"] == "error" ? 4 : found["severity"] == "warning" ? 3 : 0;
}

int stats(const Words& words, const Given& given) {
  if (words.size() > 1) throw UsageError(fmt::format("stats takes one PID or none, and no {}", words[1]));
  if (given.contains("json") && given.contains("prometheus"))
    throw UsageError("--json and --prometheus are two forms of the same");
  const ec::tools::Deadline deadline(time_for_all);
  auto found = words.empty()
                   ? ec::tools::all_stats(whom(given), deadline)
                   : ec::tools::stats_of(
                         static_cast<pid_t>(ec::codec::parse_number("PID", words[0], 1, 1 << 22)), deadline);
  std::string text;
  if (given.contains("prometheus")) {
    text = ec::tools::prometheus_of(found);
    for (const std::string& why : found.left_out) fmt::print(stderr, "left out: {}\n", why);
  } else if (given.contains("json") || !words.empty()) {
    text = ec::tools::Json{{"processes", found.processes}, {"left_out", found.left_out}}.dump(1) + "\n";
  } else {
    text = ec::tools::list_of(found);
  }
  const std::string output = output_of(given);
  if (output.empty()) {
    std::cout << text;
    return 0;
  }
  using namespace ec::support;
  if (const int error = replace_file(AT_FDCWD, output, text, 0644); error != 0)
    throw std::runtime_error(fmt::format("{} cannot be written: {}", output, std::strerror(-error)));
  return 0;
}

struct Command {
  std::string_view name;
  int (*run)(const Words&, const Given&);  ///< The exit status. A SetupError of it is one of usage.
  std::string_view options;
};
constexpr Command commands[] = {{"doctor", doctor, "json all directory profile"},
                                {"stats", stats, "json prometheus output all"}};

int run(int argc, char** argv) {
  options::options_description description(
      "ectool doctor [--json] [--all] [--directory DIRECTORY | --profile KEYS] | "
      "stats [PID] [--json | --prometheus] [--output FILE] [--all]");
  auto add = description.add_options();
  add("help,h", "this text");
  add("version", "the version");
  add("output", options::value<std::string>(), "stats: a file that is replaced as a whole");
  add("json",
      "doctor: the same as JSON. stats: everything about each process, as with a PID; without both a line "
      "for each process");
  add("prometheus", "stats: the same in Prometheus' text format, for node_exporter's textfile collector");
  add("all",
      "doctor, stats: processes of all users. Without it those of root, of this user and of Ceph's are "
      "believed");
  add("directory", options::value<std::string>()->default_value(ec::tools::adopted_directory),
      "doctor: that of `ec_adopt` on this host");
  add("profile", options::value<std::string>(),
      "doctor: say of this profile alone, as 'k=4 m=2', whether Ceph's own plugins could serve it");
  options::options_description all;
  all.add(description)
      .add_options()("command", options::value<std::string>(), "")(
          "words", options::value<Words>()->default_value({}, ""), "");
  options::positional_options_description positional;
  positional.add("command", 1).add("words", -1);
  Given given;
  options::store(options::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.contains("help")) {
    std::cout << description << '\n' << ec::tools::doctor_help;
    return 0;
  }
  if (given.contains("version")) {
    std::cout << "ectool " << EC_VERSION << '\n';
    return 0;
  }
  if (!given.contains("command")) throw UsageError("a command is missing: doctor or stats; see --help");
  const auto& name = given["command"].as<std::string>();
  const Command* command = std::ranges::find(commands, name, &Command::name);
  if (command == std::end(commands))
    throw UsageError(fmt::format("unknown command {}: doctor or stats", name));
  for (const char* option : {"output", "json", "prometheus", "all", "directory", "profile"})
    if (given.contains(option) && !given[option].defaulted() &&
        command->options.find(option) == std::string_view::npos)
      throw UsageError(fmt::format("{} takes no --{}", name, option));
  const auto& words = given["words"].as<Words>();
  try {
    return command->run(words, given);
  } catch (const ec::codec::SetupError& e) {
    throw UsageError(fmt::format("{}: {}", name, e.what()));
  }
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const options::error& e) {
  std::cerr << "ectool: " << e.what() << '\n';
  return 2;
} catch (const UsageError& e) {
  std::cerr << "ectool: " << e.what() << '\n';
  return 2;
} catch (const std::exception& e) {
  std::cerr << "ectool: " << e.what() << '\n';
  return 1;
}
