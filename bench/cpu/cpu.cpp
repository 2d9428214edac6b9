// The sections of `ec_bench cpu`, and its report: every figure beside the memory bound of the same run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/common/report.hpp"
#include "bench/common/stats.hpp"
#include "bench/cpu/contestants.hpp"
#include "bench/subcommands.hpp"

namespace ec::bench {
namespace {

/// Bytes between the chunks of a stripe: none, or 17 cache lines, so that chunks of a power of two do not
/// share cache sets.
struct Layout {
  const char* name;
  std::size_t gap;
};
constexpr Layout contiguous{"contiguous", 0};
constexpr Layout scattered{"scattered", 17 * 64};

/// Cases that answer one question.
struct Section {
  std::string name;
  std::vector<std::string> ops;
  std::vector<Shape> shapes;
  std::size_t chunk_bytes;
  bool cold;
  unsigned threads;
  std::vector<Layout> layouts;
};

const std::vector<Shape> narrow{{4, 2}, {8, 3}, {8, 4}, {10, 4}};
const std::vector<Shape> all_shapes{{4, 2}, {8, 3}, {8, 4}, {10, 4}, {16, 4}, {20, 4}, {32, 8}, {64, 16}};

const std::vector<Section> sections{
    {"cold", {"encode"}, all_shapes, 1 << 20, true, 1, {contiguous, scattered}},
    {"warm", {"encode"}, all_shapes, 4096, false, 1, {contiguous}},
    {"middle", {"encode"}, narrow, 16384, false, 1, {contiguous}},
    {"decode", {"encode", "decode", "decode-new", "decode-miss"}, all_shapes, 65536, false, 1, {contiguous}},
    {"solve", {"solve"}, all_shapes, 0, false, 1, {contiguous}},
    {"threads", {"encode"}, {{10, 4}}, 1 << 20, true, 2, {contiguous, scattered}}};

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& s : sections) names.push_back(s.name);
  return names;
}

const std::vector<Column> columns{{"op", "op", -11},
                                  {"k", "k", 3},
                                  {"m", "m", 2},
                                  {"lost", "erasures", 4},
                                  {"chunk B", "chunk_bytes", 8},
                                  {"layout", "layout", -10},
                                  {"mem", "temperature", -4},
                                  {"threads", "threads", 7},
                                  {"contestant", "contestant", -22},
                                  {"us/call", "call_us", 9, 3},
                                  {"GB/s", "source_gbps", 8, 2},
                                  {"limit", "limit_gbps", 8, 2},
                                  {"of limit", "ratio_limit", 8, 3},
                                  {"of isal", "ratio_isal", 8, 3},
                                  {"noise %", "noise", 7, 1}};

Case make_case(const Section& section, const std::string& op, Shape shape, std::size_t cold_bytes) {
  const auto [k, m] = shape;
  Case c{.op = op, .technique = technique_for(shape), .k = k, .m = m};
  c.erasures = op == "encode" ? 0 : m;
  c.chunk_bytes = section.chunk_bytes;
  c.object_bytes = k * section.chunk_bytes;
  c.threads = section.threads;
  c.cold = section.cold;
  c.stripes = section.cold ? std::max<std::size_t>(cold_bytes / (c.object_bytes * c.threads), 2) : 1;
  c.stripes *= c.threads;
  return c;
}

/// What is said of the result of each contestant that codes, set beside the fastest bound and the linked
/// ISA-L.
void add_rows(const Case& c, const char* layout, const std::vector<Contestant>& contestants,
              const std::vector<Result>& results, Clock clock, Report& report) {
  const auto gbps = [&](const Result& result) {
    return 1e-9 * static_cast<double>(c.object_bytes) * c.threads /
           median(call_seconds(result, c.threads, clock));
  };
  const Result* bound = nullptr;
  const Result* isal = nullptr;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].verified) continue;
    if (contestants[i].name == "isal") isal = &results[i];
    if (is_bound(contestants[i].name) && (bound == nullptr || gbps(results[i]) > gbps(*bound)))
      bound = &results[i];
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    // A bound that did not move what it should is as wrong as a contestant.
    if (is_bound(contestants[i].name) && result.verified) continue;
    nlohmann::json row{{"contestant", contestants[i].name},
                       {"road", "direct"},
                       {"op", c.op},
                       {"technique", gf::name(c.technique)},
                       {"k", c.k},
                       {"m", c.m},
                       {"erasures", c.erasures},
                       {"chunk_bytes", c.chunk_bytes},
                       {"layout", layout},
                       {"temperature", c.cold ? "cold" : "warm"},
                       {"threads", c.threads},
                       {"verified", result.verified}};
    for (const char* figure :
         {"call_us", "source_gbps", "limit_gbps", "ratio_limit", "ratio_isal", "ratio_isa_plugin", "noise"})
      row[figure] = nullptr;
    if (result.verified) {
      const auto seconds = call_seconds(result, c.threads, clock);
      row["call_us"] = 1e6 * median(seconds);
      row["noise"] = noise_percent(seconds);
      if (c.object_bytes != 0) row["source_gbps"] = gbps(result);
      if (isal != nullptr) row["ratio_isal"] = speed_ratio(result, *isal, clock);
      if (bound != nullptr) {
        row["limit_gbps"] = gbps(*bound);
        row["ratio_limit"] = speed_ratio(result, *bound, clock);
      }
    }
    report.add(std::move(row));
  }
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const auto wanted = line.list("sections", section_names());
  LoadedIsals loaded;
  for (const auto& file : line.list("isal")) loaded.push_back(std::make_unique<LoadedIsal>(file));
  const std::size_t cold_bytes = line.size("cold-mib", 1, 1 << 20) << 20;
  const std::string clock = line.one_of("clock", {"wall", "cpu"});
  const unsigned rounds = line.number("rounds", 1, 100'000);
  const double sample_seconds = line.seconds("sample-ms");
  Report report(line.text("json"));
  report.begin(
      make_header("none", "cpu", arguments,
                  {{"cold pool", fmt::format("{} MiB of sources", cold_bytes >> 20)}, {"clock", clock}}),
      columns);
  for (const Section& section : sections) {
    if (std::ranges::find(wanted, section.name) == wanted.end()) continue;
    Workers workers(section.threads);
    const Pace pace{.rounds = rounds,
                    .sample_seconds = sample_seconds,
                    .clock = section.threads == 1 && clock == "cpu" ? Clock::cpu : Clock::wall};
    for (const Shape& shape : section.shapes)
      for (const Layout layout : section.layouts)
        for (const auto& op : section.ops) {
          const Case c = make_case(section, op, shape, cold_bytes);
          const auto contestants =
              op == "solve" ? solving_contestants(c) : coding_contestants(c, layout.gap, loaded);
          const auto results = measure(workers, contestants, {c.threads, c.stripes / c.threads, 8}, pace);
          add_rows(c, layout.name, contestants, results, pace.clock, report);
        }
  }
  return report.finish();
}

}  // namespace

int run_cpu(const std::vector<std::string>& arguments) {
  CommandLine line("cpu");
  line.add("sections", "", fmt::format("of {}; default all", fmt::join(section_names(), ", ")));
  line.add("isal", "", "further libisal.so to load and compare");
  line.add("rounds", "31", "samples of each contestant, taken in turn");
  line.add("sample-ms", "2", "shortest time of a sample");
  line.add("cold-mib", fmt::format("{}", std::max<std::size_t>(256, 3 * (last_level_cache_bytes() >> 20))),
           "source MiB in the pool of a cold run");
  line.add("clock", "wall",
           "of one thread: wall, or cpu on a machine that others use too; several threads: always wall");
  line.add("json", "", "write the report to this file too");
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
