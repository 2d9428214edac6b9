// `ec_bench host` from its command line to its report, in one process or in many.
#include <fmt/format.h>

#include <exception>

#include "bench/common/report.hpp"
#include "bench/common/workers.hpp"
#include "bench/host/bench.hpp"
#include "bench/host/cases.hpp"
#include "bench/host/processes.hpp"
#include "bench/host/rows.hpp"
#include "bench/subcommands.hpp"

namespace ec::bench {
namespace {

Header header_of(const HostOptions& o, const Device& device, const std::vector<std::string>& arguments) {
  return make_header(
      "none", "host", arguments,
      {gpu_line(device),
       {"cores", fmt::format("{}", all_cores())},
       {"calls",
        fmt::format("each thread makes calls for {:.0f} ms a sample, after {:.0f} ms unmeasured, and takes "
                    "turns on up to {} stripes of its own",
                    1e3 * o.sample_seconds, 1e3 * o.warm_seconds, o.turns)},
       {"link",
        fmt::format("transfers of {} MiB in both directions, of all GPUs at once", o.link_bytes >> 20)}});
}

void begin(Report& report, const Header& header) {
  report.begin(header, host_columns, "(GB/s = 1e9 bytes of source a second)");
}

/// The rest of the report, and the exit status.
int finish(Report& report, const std::vector<HostRow>& rows, const nlohmann::json& ceilings,
           const nlohmann::json& left_out) {
  for (const auto& what : left_out)
    fmt::print("left out, see --largest-bytes: {}\n", what.get<std::string>());
  report["ceilings"] = ceilings;
  report["left_out"] = left_out;
  if (const auto worth = router_worth(rows)) {
    fmt::print("{}\n", worth_line(*worth));
    report["router"] = {{"points", worth->points}, {"median", worth->median}, {"worst", worth->worst}};
  }
  return report.finish();
}

/// In as many processes as asked for: adds up what they report.
int run_in_processes(const HostOptions& o, const std::vector<std::string>& arguments) {
  Report report(o.json_file);
  const auto members = run_members(o.processes, arguments);
  const nlohmann::json& first = members.front();
  std::vector<HostRow> rows;
  for (std::size_t i = 0; i < first.at("rows").size(); ++i) {
    std::vector<HostRow> row;
    for (const auto& member : members) row.push_back(row_of_raw(member.at("rows").at(i)));
    rows.push_back(merge_rows(row));
  }
  set_isal_cpu(rows);
  begin(report, first.at("header").get<Header>());
  for (const HostRow& row : rows) report.add(to_json(row));
  return finish(report, rows, first.at("ceilings"), first.at("left_out"));
}

/// As one of many processes, which reports to the one that started it.
int run_as_member(const HostOptions& o, const Header& header, HostBench& bench) {
  auto rows = nlohmann::json::array();
  for (const HostCase& c : o.cases)
    for (const HostRow& row : bench.measure(c)) rows.push_back(raw_json(row));
  hand_over(
      o.member,
      {{"header", header}, {"rows", rows}, {"ceilings", bench.ceilings()}, {"left_out", bench.left_out()}});
  return 0;
}

int run_alone(const HostOptions& o, const Header& header, Report& report, HostBench& bench) {
  begin(report, header);
  std::vector<HostRow> rows;
  std::exception_ptr broke_off;
  try {
    for (const HostCase& c : o.cases)
      for (HostRow& row : bench.measure(c)) {
        report.add(to_json(row));
        rows.push_back(std::move(row));
      }
  } catch (const std::exception&) {
    broke_off = std::current_exception();
  }
  // What was measured before is told all the same.
  const int status = finish(report, rows, bench.ceilings(), bench.left_out());
  if (broke_off) std::rethrow_exception(broke_off);
  return status;
}

int run(const HostOptions& o, std::vector<std::string> arguments) {
  const bool is_member = o.member.shared_fd >= 0;
  if (o.processes > 1 && !is_member) return run_in_processes(o, arguments);
  // --member and its value, which no person gave.
  if (is_member) arguments.resize(arguments.size() - 2);
  Report report(is_member ? "" : o.json_file);
  const auto devices = bring_up_devices("host");
  const Device::Scope scope(*devices.front());
  require(scope.result(), "cuCtxPushCurrent");
  const Header header = header_of(o, *devices.front(), arguments);
  HostBench bench(o, devices);
  return is_member ? run_as_member(o, header, bench) : run_alone(o, header, report, bench);
}

}  // namespace

int run_host(const std::vector<std::string>& arguments) {
  CommandLine line = host_command_line();
  return line.run(arguments, [&] { return run(host_options(line), arguments); });
}

}  // namespace ec::bench
