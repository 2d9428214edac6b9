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
/// Of the stripes of a thread.
constexpr std::size_t checked_turns = 8;

const std::vector<Column> columns{{"op", "op", -13},
                                  {"technique", "technique", -12},
                                  {"k", "k", 3},
                                  {"m", "m", 2},
                                  {"lost", "erasures", 4},
                                  {"chunk B", "chunk_bytes", 9},
                                  {"pool", "pool_stripes", 5},
                                  {"threads", "threads", 7},
                                  {"back end", "backend", -9},
                                  {"path", "path", -8},
                                  {"mem", "memory", -4},
                                  {"samples", "samples", 7},
                                  {"us/call", "median_seconds", 10, 2, 1e6},
                                  {"noise %", "noise_percent", 7, 1},
                                  {"object", "object_gbps", 9, 2},
                                  {"moved", "moved_gbps", 8, 2},
                                  {"ratio", "ratio", 7, 3}};

void add_options(CommandLine& line, const Sweep& sweep) {
  line.add(sweep.contestants_option, sweep.contestants_default, sweep.contestants_help);
  line.add("ops", sweep.ops.front(), fmt::format("operations: {}", fmt::join(sweep.ops, ", ")));
  line.add("techniques", "reed_sol_van", fmt::format("techniques: {}", gf::technique_names));
  line.add("shapes", "4+2,8+3,10+4", "data+coding chunks");
  line.add("sizes", "16K,256K,4M,64M",
           "object bytes of one stripe (k x chunk, before padding), suffixes K, M, G");
  line.add("erasures", "", "chunks lost, the first data chunks; default m");
  line.add("threads", "1", "threads, each coding stripes of its own");
  line.add("cache", "warm",
           "warm: every thread codes one stripe over and over; cold: stripes of a pool of --cold-bytes");
  line.add("cold-bytes", fmt::format("{}", std::max(std::size_t{256} << 20, 2 * last_level_cache_bytes())),
           "object bytes in the pool of a cold run; default twice the last-level cache, 256M at least");
  line.add("pieces", "1", "buffers that an object comes in (ceph)");
  line.add("rounds", "15", "samples of each contestant, taken in turn");
  line.add("sample-ms", "10", "shortest time of a sample");
  line.add("clock", "wall", "wall: time that passes; cpu: CPU time, for a machine that others use too");
  line.add("json", "", "write the report to this file too");
}

gf::Technique technique_of(const std::string& name) {
  if (const auto technique = gf::parse_technique(name)) return *technique;
  throw UsageError(fmt::format("--techniques {}: must be one of {}", name, gf::technique_names));
}

std::size_t cold_bytes_of(const CommandLine& line) {
  return line.size("cold-bytes", 1, std::size_t{1} << 40);
}

/// Every combination of the options, in the order of the report.
std::vector<Case> cases_of(const CommandLine& line, const Sweep& sweep) {
  const std::size_t cold_bytes = cold_bytes_of(line);
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    for (const std::size_t size : line.sizes("sizes", 1, largest_size))
      for (const unsigned threads : line.numbers("threads", 1, 1024))
        for (const auto& cache : line.list("cache", {"warm", "cold"})) {
          c.object_bytes = size;
          const std::size_t chunk = (size + c.k - 1) / c.k;
          c.chunk_bytes = (chunk + chunk_granularity - 1) / chunk_granularity * chunk_granularity;
          c.threads = threads;
          c.cold = cache == "cold";
          c.stripes = threads * (c.cold ? std::max<std::size_t>(2, cold_bytes / (size * threads)) : 1);
          c.pieces = line.number("pieces", 1, 4096);
          cases.push_back(c);
        }
  };
  for (const auto& op : line.list("ops", sweep.ops))
    for (const auto& technique : line.list("techniques"))
      for (const auto& [k, m] : line.shapes("shapes")) {
        Case c{.op = op, .technique = technique_of(technique), .k = k, .m = m};
        if (const auto error = gf::shape_error(c.technique, k, m); !error.empty())
          throw UsageError(fmt::format("--shapes {}+{}: {}", k, m, error));
        auto losses = line.numbers("erasures", 1, gf::max_chunks);
        if (op != "decode" && op != "degraded-read")
          losses = {0};
        else if (losses.empty())
          losses = {m};
        for (const unsigned erasures : losses) {
          if (erasures > std::min(k, m))
            throw UsageError(
                fmt::format("--erasures {}: must be at most {} for {}+{}", erasures, std::min(k, m), k, m));
          c.erasures = erasures;
          add(c);
        }
      }
  return cases;
}

std::size_t object_bytes_per_call(const Case& c) { return (c.op == "update" ? 1 : c.k) * c.chunk_bytes; }

/// Of chunks read and written.
std::size_t moved_bytes_per_call(const Case& c) {
  if (c.op == "encode") return (c.k + c.m) * c.chunk_bytes;
  if (c.op == "update") return (1 + 2 * c.m) * c.chunk_bytes;
  if (c.erasures == 0) return 0;  // a healthy read hands on what is there
  return (c.k + c.erasures) * c.chunk_bytes;
}

nlohmann::json row_of(const Case& c, const SweepContestant& who, const Result& result, Clock clock) {
  nlohmann::json row{{"op", c.op},
                     {"technique", gf::name(c.technique)},
                     {"k", c.k},
                     {"m", c.m},
                     {"erasures", c.erasures},
                     {"object_bytes", c.object_bytes},
                     {"chunk_bytes", c.chunk_bytes},
                     {"pieces", c.pieces},
                     {"pool_stripes", c.stripes},
                     {"stripes_in_flight", c.threads},
                     {"threads", c.threads},
                     {"backend", who.contestant.name},
                     {"path", who.path},
                     {"memory", c.cold ? "cold" : "warm"},
                     {"verified", result.verified},
                     {"verified_against", who.contestant.verified_against},
                     {"samples", result.samples.size()}};
  if (!result.verified) return row;
  const auto seconds = call_seconds(result, c.threads, clock);
  const double gbps_of_byte = 1e-9 * c.threads / median(seconds);
  row["median_seconds"] = median(seconds);
  row["noise_percent"] = noise_percent(seconds);
  row["object_gbps"] = gbps_of_byte * static_cast<double>(object_bytes_per_call(c));
  row["moved_gbps"] = gbps_of_byte * static_cast<double>(moved_bytes_per_call(c));
  return row;
}

/// All contestants on one case.
void measure_case(const Case& c, const std::vector<SweepContestant>& list, const Pace& pace,
                  const std::string& baseline, Report& report) {
  std::vector<Contestant> contestants;
  for (const SweepContestant& each : list) contestants.push_back(each.contestant);
  Workers workers(c.threads);
  const auto results = measure(workers, contestants, {c.threads, c.stripes / c.threads, checked_turns}, pace);
  const auto base = std::ranges::find(contestants, baseline, &Contestant::name) - contestants.begin();
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto row = row_of(c, list[i], results[i], pace.clock);
    const auto at = static_cast<std::size_t>(base);
    if (at < list.size() && results[at].verified && results[i].verified) {
      row["baseline"] = baseline;
      row["ratio"] = speed_ratio(results[i], results[at], pace.clock);
    }
    report.add(std::move(row));
  }
}

}  // namespace

int run_sweep(const Sweep& sweep, const std::vector<std::string>& arguments) {
  CommandLine line(sweep.name);
  add_options(line, sweep);
  return line.run(arguments, [&] {
    const auto cases = cases_of(line, sweep);
    const std::string clock = line.one_of("clock", {"wall", "cpu"});
    const Pace pace{.rounds = line.number("rounds", 1, 100'000),
                    .sample_seconds = line.seconds("sample-ms"),
                    .clock = clock == "cpu" ? Clock::cpu : Clock::wall};
    const auto line_up = sweep.prepare(line.list(sweep.contestants_option));
    Report report(line.text("json"));
    report.begin(make_header(sweep.host_version, sweep.name, arguments,
                             {{"clock", clock},
                              {"cold pool", fmt::format("{} MiB of objects", cold_bytes_of(line) >> 20)}}),
                 columns, "(object and moved in GB/s = 1e9 bytes)");
    for (const Case& c : cases) measure_case(c, line_up(c), pace, sweep.baseline, report);
    return report.finish();
  });
}

}  // namespace ec::bench
