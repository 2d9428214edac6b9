#include "bench/host/host.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
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
#include "bench/host/processes.hpp"
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
        fmt::format(
            "each thread makes calls for {:.0f} ms a sample and takes turns on up to {} stripes of its own; "
            "auto learns for {:.0f} ms "
            "and {} calls of each thread before it is timed",
            1e3 * o.sample_seconds, o.turns, 1e3 * o.learn_seconds, fewest_lessons)},
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

/// What was measured, in this process or in its members.
struct Measured {
  nlohmann::json header = nlohmann::json::object();
  std::vector<HostRow> rows;
  nlohmann::json ceilings;
  std::vector<std::string> left_out;
};

void print_head(const Header& header) {
  fmt::print("{}\n{}   (GB/s = 1e9 bytes of source a second)\n", header_text(header), host_table_head());
  std::fflush(stdout);
}

/// Prints the rest of the report, and writes all of it. Returns the exit status.
int finish(Measured& measured, const HostOptions& o, std::ofstream& json) {
  set_isal_cpu(measured.rows);
  for (const auto& what : measured.left_out) fmt::print("left out, see --largest-bytes: {}\n", what);
  std::vector<HostRow> router_grid;
  std::ranges::copy_if(measured.rows, std::back_inserter(router_grid), &HostRow::judges_router);
  const auto worth = router_worth(router_grid);
  if (worth) fmt::print("{}\n", worth_line(*worth));
  if (json.is_open()) {
    nlohmann::json report{
        {"header", measured.header}, {"ceilings", measured.ceilings}, {"left_out", measured.left_out}};
    report["rows"] = nlohmann::json::array();
    for (const HostRow& row : measured.rows) report["rows"].push_back(to_json(row));
    if (worth)
      report["router"] = {{"points", worth->points}, {"median", worth->median}, {"worst", worth->worst}};
    json << report.dump(1) << '\n';
    if (!json.flush()) throw std::runtime_error("cannot write " + o.json_file);
  }
  return std::ranges::all_of(measured.rows, &HostRow::verified) ? 0 : 1;
}

/// To the process that started this one.
void report_as_member(const Header& header, const Measured& measured, int fd) {
  nlohmann::json report{{"header", header}, {"ceilings", measured.ceilings}, {"left_out", measured.left_out}};
  report["rows"] = nlohmann::json::array();
  for (const HostRow& row : measured.rows) report["rows"].push_back(raw_json(row));
  const std::string text = report.dump();
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote < 0) throw std::runtime_error("cannot hand the report over");
    at += static_cast<std::size_t>(wrote);
  }
}

int run_processes(const HostOptions& o, const std::vector<std::string>& arguments) {
  std::ofstream json = open_json(o.json_file);
  const auto reports = run_members(o.processes, arguments);
  Measured measured;
  const auto header = reports.front().at("header").get<Header>();
  for (const auto& [key, value] : header) measured.header[key] = value;
  measured.ceilings = reports.front().at("ceilings");
  measured.left_out = reports.front().at("left_out").get<std::vector<std::string>>();
  for (std::size_t i = 0; i < reports.front().at("rows").size(); ++i) {
    std::vector<HostRow> members;
    for (const auto& report : reports) members.push_back(row_of_raw(report.at("rows").at(i)));
    measured.rows.push_back(merge_rows(members));
  }
  print_head(header);
  for (const HostRow& row : measured.rows) fmt::print("{}\n", host_table_row(row));
  return finish(measured, o, json);
}

int run(const HostOptions& o, const std::vector<std::string>& arguments) {
  const bool is_member = o.member.shared_fd >= 0;
  if (o.processes > 1 && !is_member) return run_processes(o, arguments);
  std::ofstream json = open_json(is_member ? "" : o.json_file);
  const auto devices = bring_up_devices();
  const Device& first = *devices.front();
  Device::Scope scope(first);
  require(first.driver(), scope.result(), "cuCtxPushCurrent");
  // Without --member and its value, which no person gave.
  const Header header = header_of(o, first, {arguments.begin(), arguments.end() - (is_member ? 2 : 0)});
  Measured measured;
  for (const auto& [key, value] : header) measured.header[key] = value;
  if (!is_member) print_head(header);
  HostBench bench(o, devices);
  std::exception_ptr broke_off;
  try {
    for (const HostCase& c : o.cases)
      for (HostRow& row : bench.measure(c)) {
        if (!is_member) fmt::print("{}\n", host_table_row(row));
        std::fflush(stdout);
        measured.rows.push_back(std::move(row));
      }
  } catch (const std::exception&) {
    broke_off = std::current_exception();
  }
  measured.ceilings = bench.ceilings();
  measured.left_out = bench.left_out();
  if (is_member && !broke_off) {
    report_as_member(header, measured, o.member.report_fd);
    return 0;
  }
  // What was measured before is told all the same.
  const int status = is_member ? 1 : finish(measured, o, json);
  if (broke_off) std::rethrow_exception(broke_off);
  return status;
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
