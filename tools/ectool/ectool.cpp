// ectool: what coding costs on this machine, who would do it, what processes have done, and what is wrong on
// this host.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "plugin/codec/settings/setup_error.hpp"
#include "support/files.hpp"
#include "tools/ectool/commands.hpp"
#include "tools/ectool/cpu_use.hpp"
#include "tools/ectool/ectool_doctor.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace {

namespace options = boost::program_options;
using ec::codec::node_settings;
using ec::codec::NodeSettings;
using Words = std::vector<std::string>;
using Given = options::variables_map;

/// Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string output_of(const Given& given) {
  return given.contains("output") ? given["output"].as<std::string>() : std::string();
}

/// What others may take of the CPUs while they are measured.
constexpr double most_of_others = 0.1;

/// Throws if others took more since `others` was made.
void refuse_busy(const ec::tools::OtherPrograms& others) {
  const double share = others.share();
  if (share <= most_of_others) return;
  throw std::runtime_error(fmt::format(
      "calibrate: this machine is busy: other programs took {:.0f} % of the time of its CPUs, and at most "
      "{:.0f} % is allowed. Nothing was written. Measure when it is idle, or add --force",
      100 * share, 100 * most_of_others));
}

ec::codec::Calibration measure(const NodeSettings& node, bool may_be_busy) {
  const ec::tools::OtherPrograms before;
  if (!may_be_busy) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    refuse_busy(before);
  }
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const char* const clear = is_terminal ? "\033[K" : "";
  const ec::tools::OtherPrograms meanwhile;
  auto calibration = ec::tools::measure_costs(
      node, [&](const std::string& line) { fmt::print(stderr, "{}{}\n", clear, line); },
      [&](unsigned measured, unsigned samples) {
        // Whatever comes next is written over it.
        if (is_terminal) fmt::print(stderr, "{}measured {} of {}\r", clear, measured, samples);
      });
  fmt::print(stderr, "{}", clear);
  if (!may_be_busy) refuse_busy(meanwhile);
  return calibration;
}

int calibrate(const Words& words, const Given& given) {
  if (!words.empty()) throw UsageError(fmt::format("calibrate takes no {}", words.front()));
  std::string output = output_of(given);
  if (given.contains("show") && (!output.empty() || given.contains("force")))
    throw UsageError(fmt::format("--show measures nothing, so there is nothing for --{}",
                                 output.empty() ? "force" : "output"));
  const NodeSettings& node = node_settings();
  if (given.contains("show")) {
    if (!node.costs.refused.empty()) fmt::print("{}\n", node.costs.refused);
    fmt::print("costs: {}\n{}", node.costs.path.empty() ? "built in" : node.costs.path,
               ec::tools::describe(node.costs.table));
    return 0;
  }
  if (output.empty())
    output = node.calibration.starts_with('/') ? node.calibration : ec::codec::default_calibration;
  const auto calibration = measure(node, given.contains("force"));
  ec::codec::write_calibration(output, calibration);
  fmt::print("{}written to {}; processes read it when they start\n", ec::tools::describe(calibration.costs),
             output);
  return 0;
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

int explain(const Words& words, const Given&) {
  std::cout << ec::tools::explain(words, node_settings());
  return 0;
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
  int (*run)(const Words&, const Given&);  ///< The exit status. A SetupError of it is one of usage, or not.
  std::string_view options;
  bool arguments_are_usage = true;
};
constexpr Command commands[] = {{"calibrate", calibrate, "show output force", false},
                                {"doctor", doctor, "json all directory profile"},
                                {"explain", explain, ""},
                                {"stats", stats, "json prometheus output all"}};

int run(int argc, char** argv) {
  options::options_description description(
      "ectool calibrate [--show] [--output FILE] [--force] | doctor [--json] [--all] [--directory DIRECTORY "
      "| --profile KEYS] "
      "| explain NAME=VALUE... | "
      "stats [PID] "
      "[--json | --prometheus] [--output FILE] [--all]");
  auto add = description.add_options();
  add("help,h", "this text");
  add("version", "the version");
  add("show", "calibrate: measure nothing, print the costs that are in use and where they are from");
  add("output", options::value<std::string>(),
      "calibrate: the file to write; default is where it is looked for. stats: a file that is replaced as a "
      "whole");
  add("force", "calibrate: measure on a busy machine too");
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
    std::cout << description << '\n' << ec::tools::doctor_help << ec::tools::explain_help;
    return 0;
  }
  if (given.contains("version")) {
    std::cout << "ectool " << EC_VERSION << '\n';
    return 0;
  }
  if (!given.contains("command"))
    throw UsageError("a command is missing: calibrate, doctor, explain or stats; see --help");
  const auto& name = given["command"].as<std::string>();
  const Command* command = std::ranges::find(commands, name, &Command::name);
  if (command == std::end(commands))
    throw UsageError(fmt::format("unknown command {}: calibrate, doctor, explain or stats", name));
  for (const char* option : {"show", "output", "force", "json", "prometheus", "all", "directory", "profile"})
    if (given.contains(option) && !given[option].defaulted() &&
        command->options.find(option) == std::string_view::npos)
      throw UsageError(fmt::format("{} takes no --{}", name, option));
  const auto& words = given["words"].as<Words>();
  if (!command->arguments_are_usage) return command->run(words, given);
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
