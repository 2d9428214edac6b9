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

/// Brings the devices up, says with what circumstances, and hands over what measures on them.
void with_devices(const HostOptions& o, const std::vector<std::string>& arguments,
                  const std::function<void(const Header&, HostBench&)>& measure) {
  const auto devices = bring_up_devices("host");
  const Device::Scope scope(*devices.front());
  require(scope.result(), "cuCtxPushCurrent");
  HostBench bench(o, devices);
  measure(
      make_header("none", "host", arguments,
                  {gpu_line(*devices.front()),
                   {"cores", fmt::format("{}", all_cores())},
                   {"calls", fmt::format("each thread makes calls for {:.0f} ms a sample, after {:.0f} ms "
                                         "unmeasured, and takes turns on up to {} stripes of its own",
                                         1e3 * o.sample_seconds, 1e3 * o.warm_seconds, most_turns)},
                   {"link", fmt::format("transfers of {} MiB in both directions, of all GPUs at once",
                                        o.link_bytes >> 20)}}),
      bench);
}

/// In as many processes as asked for: adds up what they report.
void measure_in_processes(const HostOptions& o, const std::vector<std::string>& arguments, Report& report,
                          std::vector<HostRow>& rows) {
  const auto members = run_in_processes(o.processes, [&](unsigned index, const auto& wait) {
    nlohmann::json result;
    with_devices(o, arguments, [&](const Header& header, HostBench& bench) {
      bench.join(index, wait);
      for (const HostCase& c : o.cases)
        for (const HostRow& row : bench.measure(c)) result["rows"].push_back(row);
      result["header"] = header;
      result["ceilings"] = bench.ceilings();
    });
    return result;
  });
  report.begin(members.front().at("header").get<Header>());
  report["ceilings"] = members.front().at("ceilings");
  for (std::size_t i = 0; i < members.front().at("rows").size(); ++i) {
    std::vector<HostRow> row;
    for (const auto& member : members) row.push_back(member.at("rows").at(i).get<HostRow>());
    rows.push_back(merge_rows(row));
  }
  for (const HostRow& row : rows) report.add(report_row(row, rows));
}

void measure_alone(const HostOptions& o, const std::vector<std::string>& arguments, Report& report,
                   std::vector<HostRow>& rows) {
  with_devices(o, arguments, [&](const Header& header, HostBench& bench) {
    report.begin(header);
    for (const HostCase& c : o.cases) {
      const auto of_case = bench.measure(c);
      for (const HostRow& row : of_case) report.add(report_row(row, of_case));
      rows.insert(rows.end(), of_case.begin(), of_case.end());
      report["ceilings"] = bench.ceilings();
    }
  });
}

int run(const HostOptions& o, const std::vector<std::string>& arguments) {
  Report report(o.json_file);
  std::vector<HostRow> rows;
  std::exception_ptr broke_off;
  try {
    (o.processes > 1 ? measure_in_processes : measure_alone)(o, arguments, report, rows);
  } catch (const std::exception&) {
    broke_off = std::current_exception();
  }
  // What was measured before is told all the same.
  for (const auto& what : o.left_out) fmt::print("left out, see --largest-bytes: {}\n", what);
  report["left_out"] = o.left_out;
  if (const auto worth = router_worth(rows)) {
    fmt::print(
        "router: time of auto over that of the best forced back end: median {:.3f} of {} points, worst "
        "{:.3f} at {}\n",
        worth->median, worth->points, worth->worst, worth->at_worst);
    report["router"] = {{"points", worth->points}, {"median", worth->median}, {"worst", worth->worst}};
  }
  const int status = report.finish();
  if (broke_off) std::rethrow_exception(broke_off);
  return status;
}

}  // namespace

int run_host(const std::vector<std::string>& arguments) {
  CommandLine line = host_command_line();
  return line.run(arguments, [&] { return run(host_options(line), arguments); });
}

}  // namespace ec::bench
