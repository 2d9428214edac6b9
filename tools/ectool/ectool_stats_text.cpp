// The stats of processes for people, and as JSON.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/ectool/ectool_stats.hpp"
#include "tools/ectool/ectool_stats_numbers.hpp"

namespace ec::tools {
namespace {

using codec::Durations;
using nlohmann::ordered_json;

const char* state_of(const ProcessStats& p) {
  constexpr std::array<const char*, 4> states{"none", "coming up", "up", "latched"};
  return p.device.state < states.size() ? states[p.device.state] : "unknown";
}

/// body(row) for every row that was used.
template <class Body>
void each_row(const ProcessStats& p, Body&& body) {
  for (const auto& row : p.rows)
    if (row.used()) body(row);
}

double us(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }
double gb(std::uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

template <class Numbers>
std::uint64_t total(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

/// Microseconds that this part of the jobs did not exceed, by the buckets.
std::string at_most(const Durations& durations, double part) {
  const auto wanted = part * static_cast<double>(total(durations.jobs));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i + 1 < Durations::buckets; ++i) {
    below += durations.jobs[i];
    if (static_cast<double>(below) >= wanted) return fmt::format("{}", us(Durations::bound(i)));
  }
  return "more";
}

ordered_json to_json(const Durations& durations) {
  ordered_json buckets = ordered_json::array();
  for (std::size_t i = 0; i < Durations::buckets; ++i) {
    ordered_json bound = nullptr;
    if (i + 1 < Durations::buckets) bound = us(Durations::bound(i));
    if (durations.jobs[i] != 0) buckets.push_back({{"at_most_us", bound}, {"jobs", durations.jobs[i]}});
  }
  return {{"jobs", total(durations.jobs)}, {"nanoseconds", durations.nanoseconds}, {"buckets", buckets}};
}

ordered_json to_json(const ProcessStats& p) {
  ordered_json rows = ordered_json::array(), checks = ordered_json::array();
  each_row(p, [&](const auto& row) {
    ordered_json fallbacks;
    for (std::size_t c = 0; c < codec::causes; ++c)
      fallbacks[std::string(codec::cause_name(c))] = row.counts.fallbacks[c];
    rows.push_back({{"backend", row.backend},
                    {"operation", name(row.operation)},
                    {"jobs", row.counts.calls},
                    {"source_bytes", row.counts.source_bytes},
                    {"fallbacks", fallbacks},
                    {"timed", {{"small", to_json(row.counts.small)}, {"large", to_json(row.counts.large)}}}});
  });
  for (const auto& [backend, c] : p.checks)
    checks.push_back({{"backend", backend},
                      {"checked", c.checked},
                      {"mismatches", c.mismatches},
                      {"unchecked", c.unchecked}});
  ordered_json all{{"pid", p.pid},     {"program", p.program}, {"name", p.name},      {"version", p.version},
                   {"since", p.since}, {"rows", rows},         {"validation", checks}};
  all["device"]["state"] = state_of(p);
  for (const StatsNumber& n : stats_numbers) all[n.group][n.name] = n.value(p);
  return all;
}

}  // namespace

std::string list_of(const std::vector<ProcessStats>& processes) {
  if (processes.empty()) return "no process that this user may look into has counters of ec-cuda\n";
  std::string out = fmt::format("{:>8} {:16} {:8} {:>14} {:>12} {:>10}  {}\n", "PID", "name", "version",
                                "jobs", "source GB", "fell back", "GPU");
  for (const ProcessStats& p : processes) {
    std::uint64_t jobs = 0, bytes = 0, fell_back = 0;
    each_row(p, [&](const auto& row) {
      jobs += row.counts.calls;
      bytes += row.counts.source_bytes;
      fell_back += total(row.counts.fallbacks);
    });
    fmt::format_to(std::back_inserter(out), "{:8} {:16} {:8} {:14} {:12.3f} {:10}  {}\n", p.pid, p.name,
                   p.version, jobs, gb(bytes), fell_back, state_of(p));
  }
  return out;
}

std::string table_of(const ProcessStats& p) {
  std::string out = fmt::format("process {} ({}), ec-cuda {}, counting since {:%Y-%m-%d %H:%M:%S} UTC\n\n",
                                p.pid, p.name, p.version, fmt::gmtime(static_cast<std::time_t>(p.since)));
  const auto add = std::back_inserter(out);
  fmt::format_to(add, "{:10} {:9} {:>14} {:>12}   fell back: {:>11} {:>9} {:>9} {:>9}\n", "back end",
                 "operation", "jobs", "source GB", codec::cause_name(0), codec::cause_name(1),
                 codec::cause_name(2), codec::cause_name(3));
  each_row(p, [&](const auto& row) {
    const auto& c = row.counts;
    fmt::format_to(add, "{:10} {:9} {:14} {:12.3f} {:>24} {:9} {:9} {:9}\n", row.backend, name(row.operation),
                   c.calls, gb(c.source_bytes), c.fallbacks[0], c.fallbacks[1], c.fallbacks[2],
                   c.fallbacks[3]);
  });
  fmt::format_to(
      add,
      "\n{:10} {:9} {:6} {:>12} {:>10} {:>10} {:>10}   large: {} bytes or more, all of them; small: one in "
      "{}\n",
      "back end", "operation", "size", "timed jobs", "mean us", "half <= us", "99% <= us",
      codec::timed_from_bytes, codec::small_jobs_a_timed_one);
  each_row(p, [&](const auto& row) {
    for (const auto& [size, durations] : {std::pair{"small", row.counts.small}, {"large", row.counts.large}})
      if (const auto jobs = total(durations.jobs); jobs != 0)
        fmt::format_to(add, "{:10} {:9} {:6} {:12} {:10.1f} {:>10} {:>10}\n", row.backend,
                       name(row.operation), size, jobs, us(durations.nanoseconds) / static_cast<double>(jobs),
                       at_most(durations, 0.5), at_most(durations, 0.99));
  });
  for (const auto& [backend, c] : p.checks)
    fmt::format_to(add, "validation of {}: {} jobs checked, {} of them wrong, {} could not be checked\n",
                   backend, c.checked, c.mismatches, c.unchecked);
  fmt::format_to(add, "\nGPU: {}", state_of(p));
  std::string_view group;
  for (const StatsNumber& n : stats_numbers) {
    std::string words = fmt::format("{} {}", n.value(p), n.name);
    std::ranges::replace(words, '_', ' ');
    fmt::format_to(add, "{}{}", group == n.group ? ", " : fmt::format("\n{}: ", n.group), words);
    group = n.group;
  }
  return out + '\n';
}

std::string json_of(const std::vector<ProcessStats>& processes) {
  ordered_json all = ordered_json::array();
  for (const ProcessStats& p : processes) all.push_back(to_json(p));
  return ordered_json{{"processes", all}}.dump(1) + "\n";
}

}  // namespace ec::tools
