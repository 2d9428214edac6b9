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

const std::vector<Shape> all_shapes{{4, 2}, {8, 3}, {8, 4}, {10, 4}, {16, 4}, {20, 4}, {32, 8}, {64, 16}};

const std::vector<Section> sections{
    {"cold", {"encode"}, all_shapes, 1 << 20, true, 1, {contiguous, scattered}},
    {"warm", {"encode"}, all_shapes, 4096, false, 1, {contiguous}},
    {"decode", {"encode", "decode", "decode-new", "decode-miss"}, all_shapes, 65536, false, 1, {contiguous}},
    {"solve", {"solve"}, all_shapes, 0, false, 1, {contiguous}},
    {"threads", {"encode"}, {{10, 4}}, 1 << 20, true, 2, {contiguous, scattered}}};

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& s : sections) names.push_back(s.name);
  return names;
}

Case make_case(const Section& section, const std::string& op, Shape shape) {
  const auto [k, m] = shape;
  Case c{.op = op, .technique = technique_for(shape), .k = k, .m = m};
  c.erasures = op == "encode" ? 0 : m;
  c.chunk_bytes = section.chunk_bytes;
  c.object_bytes = k * section.chunk_bytes;
  c.threads = section.threads;
  return c;
}

/// More than the last-level cache holds.
std::size_t cold_bytes() { return std::max(std::size_t{256} << 20, 3 * last_level_cache_bytes()); }

std::size_t turns_of(const Section& section, const Case& c) {
  return section.cold ? std::max<std::size_t>(cold_bytes() / (c.object_bytes * c.threads), 2) : 1;
}

/// What is said of the result of each contestant that codes, set beside the fastest bound and the linked
/// ISA-L.
void add_rows(const Section& section, const Case& c, const char* layout,
              const std::vector<Contestant>& contestants, const std::vector<Result>& results,
              Report& report) {
  const auto gbps = [&](const Result& result) {
    return 1e-9 * static_cast<double>(c.object_bytes) * c.threads / median(call_seconds(result, c.threads));
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
    Row row{{"contestant", contestants[i].name},
            {"op", c.op},
            {"technique", gf::name(c.technique)},
            {"k", c.k},
            {"m", c.m},
            {"erasures", c.erasures},
            {"chunk_bytes", c.chunk_bytes},
            {"layout", layout},
            {"temperature", section.cold ? "cold" : "warm"},
            {"threads", c.threads},
            {"verified", result.verified}};
    for (const char* figure : {"call_us", "source_gbps", "limit_gbps", "ratio_limit", "ratio_isal", "noise"})
      row[figure] = nullptr;
    if (result.verified) {
      const auto seconds = call_seconds(result, c.threads);
      row["call_us"] = 1e6 * median(seconds);
      row["noise"] = noise_percent(seconds);
      if (c.object_bytes != 0) row["source_gbps"] = gbps(result);
      if (isal != nullptr) row["ratio_isal"] = speed_ratio(result, *isal);
      if (bound != nullptr) {
        row["limit_gbps"] = gbps(*bound);
        row["ratio_limit"] = speed_ratio(result, *bound);
      }
    }
    report.add(row);
  }
}

/// Those that are wanted, and each once for every wanted length and with the wanted shapes.
std::vector<Section> sections_of(const CommandLine& line) {
  const auto wanted = line.list("sections", section_names());
  const auto lengths = line.numbers("chunks", 64, std::size_t{1} << 30, 64);
  std::vector<Section> all;
  for (Section section : sections) {
    if (std::ranges::find(wanted, section.name) == wanted.end()) continue;
    if (const auto shapes = line.shapes("shapes"); !shapes.empty()) section.shapes = shapes;
    if (lengths.empty() || section.chunk_bytes == 0) {
      all.push_back(section);
      continue;
    }
    for (const std::size_t length : lengths) {
      section.chunk_bytes = length;
      all.push_back(section);
    }
  }
  return all;
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const auto chosen = sections_of(line);
  std::vector<LoadedIsal> loaded;
  for (const auto& file : line.list("isal")) loaded.emplace_back(file);
  const Pace pace{.rounds = line.number("rounds", 1, 100'000), .sample_seconds = line.seconds("sample-ms")};
  Report report(line.text("json"));
  report.begin(make_header("none", "cpu", arguments,
                           {{"cold pool", fmt::format("{} MiB of sources", cold_bytes() >> 20)}}));
  for (const Section& section : chosen) {
    Workers workers(section.threads);
    for (const Shape& shape : section.shapes)
      for (const Layout layout : section.layouts)
        for (const auto& op : section.ops) {
          const Case c = make_case(section, op, shape);
          const StripeOrder order{c.threads, turns_of(section, c), 8};
          const auto contestants = op == "solve" ? solving_contestants(c)
                                                 : coding_contestants(c, order.stripes(), layout.gap, loaded);
          const auto results = measure(workers, contestants, order, pace);
          add_rows(section, c, layout.name, contestants, results, report);
        }
  }
  return report.finish();
}

}  // namespace

int run_cpu(const std::vector<std::string>& arguments) {
  CommandLine line("cpu");
  line.add("sections", "", fmt::format("of {}; default all", fmt::join(section_names(), ", ")));
  line.add("shapes", "", "data+coding chunks; default: those of the section");
  line.add("chunks", "", "bytes of a chunk, multiples of 64; default: that of the section");
  line.add("isal", "", "further libisal.so to load and compare");
  line.add("rounds", "31", "samples of each contestant, taken in turn");
  line.add("sample-ms", "2", "shortest time of a sample");
  line.add("json", "", "write the report to this file too");
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
