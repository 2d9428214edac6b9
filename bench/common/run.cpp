#include "bench/common/run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "bench/common/measure.hpp"
#include "bench/common/report.hpp"

namespace ec::bench {
namespace {

int run(const Entry& entry, const std::vector<std::string>& arguments) {
  const Subcommand subcommand = entry.describe();
  const Options options = parse_options(subcommand, arguments);
  if (options.help) {
    fmt::print("{}", options.help_text);
    return 0;
  }
  const auto cases = cases_of(options);
  const auto road = entry.make(options.contestants);
  std::ofstream json;
  if (!options.json_file.empty()) {
    json.open(options.json_file);
    if (!json)
      throw UsageError(fmt::format("--json {}: must be a file that can be written", options.json_file));
  }
  std::string command_line = "ec_bench " + subcommand.name;
  for (const auto& a : arguments) command_line += " " + a;
  const Header header =
      make_header(entry.host_version(), command_line,
                  {{"clock", options.pace.clock == ClockKind::wall ? "wall" : "cpu"},
                   {"cold pool", fmt::format("{} MiB of objects", options.cold_bytes >> 20)}});
  fmt::print("{}\n{}\n", header_text(header), table_head());
  std::vector<Row> rows;
  bool sound = true;
  for (const Case& c : cases)
    for (Row& row : measure(*road, c, options.pace)) {
      fmt::print("{}\n", table_row(row));
      std::fflush(stdout);
      sound = sound && row.verified;
      rows.push_back(std::move(row));
    }
  if (json.is_open()) {
    json << to_json(header, rows).dump(1) << '\n';
    if (!json.flush()) throw std::runtime_error("cannot write " + options.json_file);
  }
  return sound ? 0 : 1;
}

}  // namespace

int exit_status_of(const std::function<int()>& body) try { return body(); } catch (const UsageError& e) {
  fmt::print(stderr, "ec_bench: {}\n", e.what());
  return 2;
} catch (const std::exception& e) {
  fmt::print(stderr, "ec_bench: {}\n", e.what());
  return 1;
}

int run_subcommand(const Entry& entry, const std::vector<std::string>& arguments) {
  return exit_status_of([&] { return run(entry, arguments); });
}

}  // namespace ec::bench
