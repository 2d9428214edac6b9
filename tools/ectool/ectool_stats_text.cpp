#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/ectool/ectool_stats.hpp"

namespace ec::tools {
namespace {

using codec::Durations;
using codec::Event;
using codec::Operation;
using codec::Row;
using codec::StatsPage;
using nlohmann::ordered_json;

constexpr std::array every_operation{Operation::encode, Operation::decode, Operation::update};
constexpr std::array<const char*, 4> states{"none", "coming up", "up", "latched"};

const char* state_of(const StatsPage& page) {
  return page.device.state < states.size() ? states[page.device.state] : "unknown";
}

std::uint64_t given_up(const StatsPage& page) {
  return page.device.given_up_bytes + sum(page, Event::bytes_given_up);
}

/// body(back end, operation, row) for every row that was used.
template <class Body>
void each_row(const StatsPage& page, Body&& body) {
  for (std::size_t b = 0; b < codec::max_backends; ++b)
    for (const Operation operation : every_operation) {
      const Row row = sum(page, b, operation);
      std::uint64_t used = row.calls;
      for (const auto n : row.fallbacks) used += n;
      if (used != 0) body(page.backends[b].data(), name(operation), row);
    }
}

double us(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

std::uint64_t jobs_of(const Durations& durations) {
  std::uint64_t all = 0;
  for (const auto n : durations.jobs) all += n;
  return all;
}

/// Microseconds that this part of the jobs did not exceed, by the buckets.
std::string at_most(const Durations& durations, double part) {
  const auto wanted = part * static_cast<double>(jobs_of(durations));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i + 1 < Durations::buckets; ++i) {
    below += durations.jobs[i];
    if (static_cast<double>(below) >= wanted) return fmt::format("{}", us(Durations::bound(i)));
  }
  return "more";
}

double mean_us(const Durations& durations) {
  const auto jobs = jobs_of(durations);
  return jobs == 0 ? 0 : us(durations.nanoseconds) / static_cast<double>(jobs);
}

double gb(std::uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }
double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string since(const StatsPage& page) {
  const auto when = static_cast<std::time_t>(page.since);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(when));
}

ordered_json json_of(const Durations& durations) {
  ordered_json buckets = ordered_json::array();
  for (std::size_t i = 0; i < Durations::buckets; ++i) {
    ordered_json bound = nullptr;
    if (i + 1 < Durations::buckets) bound = us(Durations::bound(i));
    if (durations.jobs[i] != 0) buckets.push_back({{"at_most_us", bound}, {"jobs", durations.jobs[i]}});
  }
  return {{"jobs", jobs_of(durations)}, {"nanoseconds", durations.nanoseconds}, {"buckets", buckets}};
}

ordered_json json_of(const ProcessStats& process) {
  const StatsPage& page = process.page;
  const auto& d = page.device;
  const auto& a = page.arena;
  ordered_json rows = ordered_json::array();
  each_row(page, [&](const char* backend, std::string_view operation, const Row& row) {
    ordered_json fallbacks;
    for (std::size_t c = 0; c < codec::causes; ++c)
      fallbacks[std::string(codec::cause_name(c))] = row.fallbacks[c];
    rows.push_back({{"backend", backend},
                    {"operation", operation},
                    {"jobs", row.calls},
                    {"source_bytes", row.source_bytes},
                    {"fallbacks", fallbacks},
                    {"timed", {{"small", json_of(row.small)}, {"large", json_of(row.large)}}}});
  });
  ordered_json checks = ordered_json::array();
  for (std::size_t b = 0; b < codec::max_backends; ++b)
    if (const auto& c = page.checks[b]; c.checked + c.mismatches + c.unchecked != 0)
      checks.push_back({{"backend", page.backends[b].data()},
                        {"checked", c.checked},
                        {"mismatches", c.mismatches},
                        {"unchecked", c.unchecked}});
  return {
      {"pid", process.pid},
      {"program", process.program},
      {"version", page.version.data()},
      {"since", page.since},
      {"rows", rows},
      {"validation", checks},
      {"decode_plans", {{"found", sum(page, Event::plan_found)}, {"solved", sum(page, Event::plan_solved)}}},
      {"device",
       {{"state", state_of(page)},
        {"jobs", page.jobs_on_device},
        {"starts", d.starts},
        {"failed_starts", d.failed_starts},
        {"latches", d.latches},
        {"staging_bytes", d.staging_bytes},
        {"given_up_bytes", given_up(page)},
        {"device_bytes", d.device_bytes}}},
      {"programs",
       {{"found", d.programs_found}, {"compiled", d.programs_compiled}, {"failed", d.programs_failed}}},
      {"arena",
       {{"bytes", a.arena_bytes},
        {"used_bytes", a.used_bytes},
        {"peak_bytes", a.peak_bytes},
        {"handed_out", a.allocated},
        {"given_back", a.released},
        {"refused", a.refused}}}};
}

}  // namespace

std::string list_of(const std::vector<ProcessStats>& processes) {
  if (processes.empty()) return "no process that this user may look into has counters of ec-cuda\n";
  std::string out = fmt::format("{:>8} {:16} {:8} {:>14} {:>12} {:>10}  {}\n", "PID", "program", "version",
                                "jobs", "source GB", "fell back", "GPU");
  for (const ProcessStats& process : processes) {
    std::uint64_t jobs = 0, bytes = 0, fell_back = 0;
    each_row(process.page, [&](auto, auto, const Row& row) {
      jobs += row.calls;
      bytes += row.source_bytes;
      for (const auto n : row.fallbacks) fell_back += n;
    });
    fmt::format_to(std::back_inserter(out), "{:8} {:16} {:8} {:14} {:12.3f} {:10}  {}\n", process.pid,
                   process.program, process.page.version.data(), jobs, gb(bytes), fell_back,
                   state_of(process.page));
  }
  return out;
}

std::string table_of(const ProcessStats& process) {
  const StatsPage& page = process.page;
  std::string out = fmt::format("process {} ({}), ec-cuda {}, counting since {} UTC\n\n", process.pid,
                                process.program, page.version.data(), since(page));
  const auto add = std::back_inserter(out);
  fmt::format_to(add, "{:10} {:9} {:>14} {:>12}   fell back: {:>11} {:>9} {:>9} {:>9}\n", "back end",
                 "operation", "jobs", "source GB", codec::cause_name(0), codec::cause_name(1),
                 codec::cause_name(2), codec::cause_name(3));
  each_row(page, [&](const char* backend, std::string_view operation, const Row& row) {
    fmt::format_to(add, "{:10} {:9} {:14} {:12.3f} {:>24} {:9} {:9} {:9}\n", backend, operation, row.calls,
                   gb(row.source_bytes), row.fallbacks[0], row.fallbacks[1], row.fallbacks[2],
                   row.fallbacks[3]);
  });
  fmt::format_to(add,
                 "\n{:10} {:9} {:6} {:>12} {:>10} {:>10} {:>10}   large: {} bytes or more, all of them; "
                 "small: one in {}\n",
                 "back end", "operation", "size", "timed jobs", "mean us", "half <= us", "99% <= us",
                 codec::timed_from_bytes, codec::small_jobs_a_timed_one);
  each_row(page, [&](const char* backend, std::string_view operation, const Row& row) {
    for (const auto& [size, durations] : {std::pair{"small", row.small}, {"large", row.large}})
      if (jobs_of(durations) != 0)
        fmt::format_to(add, "{:10} {:9} {:6} {:12} {:10.1f} {:>10} {:>10}\n", backend, operation, size,
                       jobs_of(durations), mean_us(durations), at_most(durations, 0.5),
                       at_most(durations, 0.99));
  });
  for (std::size_t b = 0; b < codec::max_backends; ++b)
    if (const auto& c = page.checks[b]; c.checked + c.mismatches + c.unchecked != 0)
      fmt::format_to(add, "validation of {}: {} jobs checked, {} of them wrong, {} could not be checked\n",
                     page.backends[b].data(), c.checked, c.mismatches, c.unchecked);
  const auto& d = page.device;
  const auto& a = page.arena;
  fmt::format_to(add, "\ndecode plans: {} found, {} solved\n", sum(page, Event::plan_found),
                 sum(page, Event::plan_solved));
  fmt::format_to(add, "GPU: {}; {} jobs in hand; came up {} times, failed to {}, latched off {}\n",
                 state_of(page), page.jobs_on_device, d.starts, d.failed_starts, d.latches);
  fmt::format_to(add, "memory in MiB: {:.1f} pinned for staging, {:.1f} given up, {:.1f} of the GPU\n",
                 mib(d.staging_bytes), mib(given_up(page)), mib(d.device_bytes));
  fmt::format_to(add, "programs: {} found, {} compiled, {} failed\n", d.programs_found, d.programs_compiled,
                 d.programs_failed);
  if (a.arena_bytes != 0)
    fmt::format_to(
        add,
        "arena in MiB: {:.1f}, {:.1f} in use, {:.1f} at most; blocks: {} handed out, {} given back, {} "
        "refused\n",
        mib(a.arena_bytes), mib(a.used_bytes), mib(a.peak_bytes), a.allocated, a.released, a.refused);
  return out;
}

std::string json_of(const std::vector<ProcessStats>& processes) {
  ordered_json all = ordered_json::array();
  for (const ProcessStats& process : processes) all.push_back(json_of(process));
  return ordered_json{{"processes", all}}.dump(1) + "\n";
}

}  // namespace ec::tools
