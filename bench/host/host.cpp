#include "bench/host/host.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "bench/common/options.hpp"
#include "bench/common/report.hpp"
#include "bench/common/run.hpp"
#include "bench/host/host_measure.hpp"
#include "bench/host/host_options.hpp"
#include "bench/host/host_report.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "plugin/codec/settings/device_options.hpp"

namespace ec::bench {
namespace {

using kernels::cuda::Device;

/// By the settings of this node, as a daemon's.
std::vector<std::shared_ptr<Device>> bring_up_devices() {
  auto options = codec::device_options(codec::node_settings());
  options.log = [](const char* line) { fmt::print(stderr, "{}\n", line); };
  kernels::cuda::configure(options);
  std::string why;
  std::vector<std::shared_ptr<Device>> devices;
  // All of them before anything is timed.
  for (std::size_t i = 0; i < kernels::cuda::device_count(); ++i) {
    devices.push_back(kernels::cuda::Devices::instance().acquire_waiting(i, &why));
    if (!devices.back())
      throw std::runtime_error("sub-command host measures a device, and there is none: " + why);
  }
  return devices;
}

Header header_of(const HostOptions& o, const Device& device, const std::vector<std::string>& arguments) {
  const auto& info = device.info();
  return make_header(
      "none", fmt::format("ec_bench host {}", fmt::join(arguments, " ")),
      {{"gpu", fmt::format("{}, compute capability {}.{}, {} multiprocessors", info.name, info.compute_major,
                           info.compute_minor, info.multiprocessors)},
       {"cores", fmt::format("{}", all_cores())},
       {"calls",
        fmt::format("each thread takes turns on up to {} stripes of its own; auto learns for {:.0f} ms "
                    "and {} calls of each thread before it is timed",
                    o.turns, 1e3 * o.learn_seconds, fewest_lessons)},
       {"link",
        fmt::format("transfers of {} MiB in both directions, of all GPUs at once", o.link_bytes >> 20)}});
}

/// Found before anything is measured.
std::ofstream open_json(const std::string& file) {
  std::ofstream json;
  if (file.empty()) return json;
  json.open(file);
  if (!json) throw UsageError(fmt::format("--json {}: must be a file that can be written", file));
  return json;
}

nlohmann::json report_of(const Header& header, const std::vector<HostRow>& rows, const HostBench& bench,
                         const std::optional<RouterWorth>& worth) {
  nlohmann::json report;
  for (const auto& [key, value] : header) report["header"][key] = value;
  report["rows"] = nlohmann::json::array();
  for (const HostRow& row : rows) report["rows"].push_back(to_json(row));
  report["ceilings"] = bench.ceilings();
  report["left_out"] = bench.left_out();
  if (worth)
    report["router"] = {{"points", worth->points}, {"median", worth->median}, {"worst", worth->worst}};
  return report;
}

int run(const HostOptions& o, const std::vector<std::string>& arguments) {
  std::ofstream json = open_json(o.json_file);
  const auto devices = bring_up_devices();
  const Device& first = *devices.front();
  Device::Scope scope(first);
  require(first.driver(), scope.result(), "cuCtxPushCurrent");
  const Header header = header_of(o, first, arguments);
  fmt::print("{}\n{}   (GB/s = 1e9 bytes of source a second)\n", header_text(header), host_table_head());
  std::fflush(stdout);
  HostBench bench(o, devices);
  std::vector<HostRow> rows;
  std::vector<HostRow> router_grid;
  std::exception_ptr broke_off;
  try {
    for (const HostCase& c : o.cases)
      for (HostRow& row : bench.measure(c)) {
        fmt::print("{}\n", host_table_row(row));
        std::fflush(stdout);
        if (c.judges_router) router_grid.push_back(row);
        rows.push_back(std::move(row));
      }
  } catch (const std::exception&) {
    broke_off = std::current_exception();
  }
  for (const auto& what : bench.left_out()) fmt::print("left out, see --largest-bytes: {}\n", what);
  const auto worth = router_worth(router_grid);
  if (worth) fmt::print("{}\n", worth_line(*worth));
  if (json.is_open()) {
    json << report_of(header, rows, bench, worth).dump(1) << '\n';
    if (!json.flush()) throw std::runtime_error("cannot write " + o.json_file);
  }
  // What was measured before is told all the same.
  if (broke_off) std::rethrow_exception(broke_off);
  return std::ranges::all_of(rows, &HostRow::verified) ? 0 : 1;
}

}  // namespace

int run_host(const std::vector<std::string>& arguments) {
  return exit_status_of([&] {
    const HostOptions options = parse_host_options(arguments);
    if (options.help.empty()) return run(options, arguments);
    fmt::print("{}", options.help);
    return 0;
  });
}

}  // namespace ec::bench
