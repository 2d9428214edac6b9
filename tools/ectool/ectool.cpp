// ectool: what coding costs on this machine, who would do it, whether what was wrong once is wrong again, and
// what processes have done.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "plugin/codec/settings/setup_error.hpp"
#include "support/files.hpp"
#include "tools/ectool/ectool_calibrate.hpp"
#include "tools/ectool/ectool_explain.hpp"
#include "tools/ectool/ectool_replay.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace {

namespace options = boost::program_options;
using ec::codec::NodeSettings;

/// Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The file that this user's processes look for first, or for root the one that all do.
std::string default_output(const NodeSettings& node) {
  if (!node.calibration.empty() && node.calibration != "none") return node.calibration;
  const auto paths =
      ec::codec::calibration_paths([](const char* variable) { return secure_getenv(variable); });
  return geteuid() == 0 ? paths.back() : paths.front();
}

void show(const NodeSettings& node) {
  if (!node.costs.refused.empty()) fmt::print("{}\n", node.costs.refused);
  fmt::print("costs: {}\n{}", node.costs.path.empty() ? "built in" : node.costs.path,
             ec::tools::describe(node.costs.table));
}

void calibrate(const NodeSettings& node, const std::string& output) {
  const auto calibration =
      ec::tools::measure_costs(node, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  ec::codec::write_calibration(output, calibration);
  fmt::print("{}written to {}; processes read it when they start\n", ec::tools::describe(calibration.costs),
             output);
}

/// The exit status.
int replay(const std::vector<std::string>& files) {
  if (files.size() != 1) throw UsageError("replay takes one file, a reproducer");
  std::string why;
  const auto reproducer = ec::codec::read_reproducer(files.front(), &why);
  if (!reproducer) throw UsageError(fmt::format("replay: {}: {}", files.front(), why));
  const bool right = ec::tools::replay(*reproducer, ec::codec::node_settings(),
                                       [](const std::string& line) { fmt::print("{}\n", line); });
  return right ? 0 : 1;
}

enum class Form { people, json, prometheus };

std::string in_form(Form form, const std::vector<ec::tools::ProcessStats>& processes, bool one) {
  if (form == Form::json) return ec::tools::json_of(processes);
  if (form == Form::prometheus) return ec::tools::prometheus_of(processes);
  if (!one) return ec::tools::list_of(processes);
  std::string text;
  for (const auto& process : processes) text += ec::tools::table_of(process);
  return text;
}

/// output: the file to write; empty for standard output.
void stats(const std::vector<std::string>& pids, Form form, const std::string& output) {
  if (pids.size() > 1) throw UsageError(fmt::format("stats takes one PID or none, and no {}", pids[1]));
  pid_t pid = 0;
  if (!pids.empty()) try {
      pid = static_cast<pid_t>(ec::codec::parse_number("PID", pids.front(), 1, 1 << 22));
    } catch (const ec::codec::SetupError& e) {
      throw UsageError(fmt::format("stats: {}", e.what()));
    }
  const auto processes = pids.empty() ? ec::tools::all_stats() : ec::tools::stats_of(pid);
  const std::string text = in_form(form, processes, !pids.empty());
  if (output.empty()) {
    std::cout << text;
    return;
  }
  using namespace ec::support;
  if (const int error = replace_file(AT_FDCWD, output, text, 0644, Sync::no); error != 0)
    throw std::runtime_error(fmt::format("{} cannot be written: {}", output, std::strerror(-error)));
}

int run(int argc, char** argv) {
  options::options_description description(
      "ectool calibrate [--show] [--output FILE] | explain NAME=VALUE... | replay FILE | stats [PID] "
      "[--json | --prometheus] [--output FILE]");
  auto add = description.add_options();
  add("help", "this text");
  add("show", "calibrate: measure nothing, print the costs that are in use and where they are from");
  add("output", options::value<std::string>(),
      "calibrate: the file to write; default is where it is looked for. stats: a file that is replaced as a "
      "whole");
  add("json", "stats: everything about each process as JSON; without it and a PID, a line for each process");
  add("prometheus", "stats: the same in Prometheus' text format, for node_exporter's textfile collector");
  options::options_description all;
  all.add(description)
      .add_options()("command", options::value<std::string>(), "")(
          "pairs", options::value<std::vector<std::string>>()->default_value({}, ""), "");
  options::positional_options_description positional;
  positional.add("command", 1).add("pairs", -1);
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.contains("help")) {
    std::cout << description << '\n'
              << ec::tools::explain_help
              << "replay runs a file of EC_CUDA_REPRODUCERS with every back end of this machine. Exit "
                 "status: 0 if all\n"
                 "are right, 1 if one is wrong, 2 for a file that cannot be used.\n";
    return 0;
  }
  if (!given.contains("command"))
    throw UsageError("a command is missing: calibrate, explain, replay or stats; see --help");
  const auto& command = given["command"].as<std::string>();
  const auto& pairs = given["pairs"].as<std::vector<std::string>>();
  const bool to_show = given.contains("show"), to_write = given.contains("output"),
             as_json = given.contains("json"), as_prometheus = given.contains("prometheus");
  if ((as_json || as_prometheus) && command != "stats")
    throw UsageError("--json and --prometheus go with stats only");
  if (as_json && as_prometheus) throw UsageError("--json and --prometheus are two forms of the same");
  if (to_show && command != "calibrate") throw UsageError("--show goes with calibrate only");
  if (to_write && command != "calibrate" && command != "stats")
    throw UsageError("--output goes with calibrate and stats only");
  const auto output = to_write ? given["output"].as<std::string>() : std::string();
  if (command == "replay") return replay(pairs);
  if (command == "stats") {
    stats(pairs, as_json ? Form::json : as_prometheus ? Form::prometheus : Form::people, output);
    return 0;
  }
  if (command == "explain") {
    try {
      std::cout << ec::tools::explain(pairs, ec::codec::node_settings());
    } catch (const ec::codec::SetupError& e) {
      throw UsageError(fmt::format("explain: {}", e.what()));
    }
    return 0;
  }
  if (command != "calibrate")
    throw UsageError(fmt::format("unknown command {}: calibrate, explain, replay or stats", command));
  if (!pairs.empty()) throw UsageError(fmt::format("calibrate takes no {}", pairs.front()));
  if (to_show && to_write) throw UsageError("--show measures nothing, so there is nothing for --output");
  const NodeSettings& node = ec::codec::node_settings();
  if (to_show)
    show(node);
  else
    calibrate(node, to_write ? output : default_output(node));
  return 0;
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
