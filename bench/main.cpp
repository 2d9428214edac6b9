// ec_bench: measures the code directly (codec) and behind Ceph's interface (ceph).
// Exit status: 0, 1 if a contestant made wrong bytes or failed, 2 for a command line that cannot be used.
#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "bench/codec_road.hpp"
#include "bench/measure.hpp"
#include "bench/options.hpp"
#include "bench/report.hpp"
#ifdef EC_BENCH_CEPH
#include "bench/ceph_road.hpp"
#endif

namespace ec::bench {
namespace {

struct Entry {
  Subcommand (*describe)();
  std::unique_ptr<Road> (*make)(const std::vector<std::string>& contestants);
  std::string (*host_version)();
};

std::vector<Entry> entries() {
  std::vector<Entry> list{{codec_subcommand, make_codec_road, [] { return std::string("none"); }}};
#ifdef EC_BENCH_CEPH
  list.push_back({ceph_subcommand, make_ceph_road, [] { return "Ceph " + ceph_version(); }});
#endif
  return list;
}

std::string names() {
  std::string text;
  for (const auto& e : entries()) text += (text.empty() ? "" : ", ") + e.describe().name;
  return text;
}

int run(const Entry& entry, const std::vector<std::string>& arguments, const std::string& command_line) {
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
  const Header header =
      make_header(entry.host_version(), command_line,
                  {{"cold pool", fmt::format("{} MiB of objects", options.cold_bytes >> 20)}});
  fmt::print("{}\n{}\n", header_text(header), table_head());
  std::vector<Row> rows;
  bool sound = true;
  for (const Case& c : cases)
    for (Row& row : measure(*road, c, {options.rounds, options.sample_seconds})) {
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

int run(const std::vector<std::string>& arguments, const std::string& command_line) {
  if (arguments.empty() || arguments.front() == "--help") {
    fmt::print("ec_bench SUBCOMMAND [options]; sub-commands: {}; each takes --help\n", names());
    return arguments.empty() ? 2 : 0;
  }
  for (const Entry& entry : entries())
    if (entry.describe().name == arguments.front())
      return run(entry, {arguments.begin() + 1, arguments.end()}, command_line);
  throw UsageError(fmt::format("sub-command {}: must be one of {}", arguments.front(), names()));
}

}  // namespace
}  // namespace ec::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string command_line = "ec_bench";
  for (const auto& a : arguments) command_line += " " + a;
  try {
    return ec::bench::run(arguments, command_line);
  } catch (const ec::bench::UsageError& e) {
    fmt::print(stderr, "ec_bench: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "ec_bench: {}\n", e.what());
    return 1;
  }
}
