// Measures every combination of options that codec and ceph share.
#include "bench/common/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/common/report.hpp"
#include "bench/common/stats.hpp"

namespace ec::bench {
namespace {

constexpr std::size_t chunk_granularity = 32;
constexpr std::size_t largest_size = std::size_t{1} << 31;

void add_options(CommandLine& line, const Sweep& sweep) {
  line.add(sweep.contestants_option, sweep.contestants_default, sweep.contestants_help);
  line.add("ops", sweep.ops.front(), fmt::format("operations: {}", fmt::join(sweep.ops, ", ")));
  line.add("shapes", "4+2,8+3,10+4", "data+coding chunks");
  line.add("technique", "",
           fmt::format("one of {}; without it cauchy where reed_sol_van cannot be", gf::technique_names));
  line.add("sizes", "16K,256K,4M,64M",
           "object bytes of one stripe (k x chunk, before padding), suffixes K, M, G");
  line.add("threads", "1", "threads, each coding a stripe of its own over and over");
  line.add("rounds", "15", "samples of each contestant, taken in turn");
  line.add("sample-ms", "10", "shortest time of a sample");
  line.add("json", "", "write the report to this file too");
}

gf::Technique technique_of(const CommandLine& line, Shape shape) {
  if (!line.given("technique")) return technique_for(shape);
  const std::string text = line.text("technique");
  const auto technique = gf::parse_technique(text);
  if (!technique)
    throw UsageError(fmt::format("--technique {}: must be one of {}", text, gf::technique_names));
  const auto [k, m] = shape;
  if (const auto error = gf::shape_error(*technique, k, m); !error.empty())
    throw UsageError(fmt::format("--shapes {}+{}: {}", k, m, error));
  return *technique;
}

/// Every combination of the options, in the order of the report.
std::vector<Case> cases_of(const CommandLine& line, const Sweep& sweep) {
  std::vector<Case> cases;
  for (const auto& op : line.list("ops", sweep.ops))
    for (const auto& [k, m] : line.shapes("shapes"))
      for (const std::size_t size : line.numbers("sizes", 1, largest_size))
        for (const std::size_t threads : line.numbers("threads", 1, 1024)) {
          Case c{.op = op, .technique = technique_of(line, {k, m}), .k = k, .m = m, .object_bytes = size};
          c.erasures = op == "decode" || op == "degraded-read" ? m : 0;
          c.chunk_bytes = (size + k * chunk_granularity - 1) / (k * chunk_granularity) * chunk_granularity;
          c.threads = static_cast<unsigned>(threads);
          cases.push_back(c);
        }
  return cases;
}

/// Chunks read and written by a call. A healthy read hands on what is there.
unsigned moved_chunks(const Case& c) {
  if (c.op == "encode") return c.k + c.m;
  return c.erasures == 0 ? 0 : c.k + c.erasures;
}

Row row_of(const Case& c, const SweepContestant& who, const Result& result, const Result* base) {
  Row row{{"op", c.op},
          {"technique", gf::name(c.technique)},
          {"k", c.k},
          {"m", c.m},
          {"erasures", c.erasures},
          {"object_bytes", c.object_bytes},
          {"chunk_bytes", c.chunk_bytes},
          {"threads", c.threads},
          {"backend", who.contestant.name},
          {"path", who.path},
          {"verified", result.verified},
          {"samples", result.samples.size()},
          {"median_seconds", nullptr},
          {"noise_percent", nullptr},
          {"object_gbps", nullptr},
          {"moved_gbps", nullptr},
          {"ratio", nullptr}};
  if (!result.verified) return row;
  const auto seconds = call_seconds(result, c.threads);
  const double chunk_gbps = 1e-9 * c.threads * static_cast<double>(c.chunk_bytes) / median(seconds);
  row["median_seconds"] = median(seconds);
  row["noise_percent"] = noise_percent(seconds);
  row["object_gbps"] = chunk_gbps * c.k;
  row["moved_gbps"] = chunk_gbps * moved_chunks(c);
  if (base != nullptr) row["ratio"] = speed_ratio(result, *base);
  return row;
}

/// All contestants on one case.
void measure_case(const Case& c, const std::vector<SweepContestant>& list, const Pace& pace,
                  const std::vector<std::string>& baselines, Report& report) {
  std::vector<Contestant> contestants;
  for (const SweepContestant& each : list) contestants.push_back(each.contestant);
  Workers workers(c.threads);
  const auto results = measure(workers, contestants, {c.threads, 1, 1}, pace);
  const Result* base = nullptr;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (std::ranges::count(baselines, contestants[i].name) != 0 && results[i].verified) base = &results[i];
  for (std::size_t i = 0; i < list.size(); ++i) report.add(row_of(c, list[i], results[i], base));
}

}  // namespace

int run_sweep(const Sweep& sweep, const std::vector<std::string>& arguments) {
  CommandLine line(sweep.name);
  add_options(line, sweep);
  return line.run(arguments, [&] {
    const auto cases = cases_of(line, sweep);
    const Pace pace{.rounds = line.number("rounds", 1, 100'000), .sample_seconds = line.seconds("sample-ms")};
    Report report(line.text("json"));
    report.begin(make_header(sweep.host_version, sweep.name, arguments, {}));
    const auto names = line.list(sweep.contestants_option);
    for (const Case& c : cases) measure_case(c, sweep.line_up(names, c), pace, sweep.baselines, report);
    return report.finish();
  });
}

}  // namespace ec::bench
