// The sections of `ec_bench cpu`, and its report: every figure beside the memory bound of the same run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/common/isal.hpp"
#include "bench/common/report.hpp"
#include "bench/cpu/contestants.hpp"
#include "bench/cpu/memory_bound.hpp"

namespace ec::bench {
namespace {

/// hot: one stripe over and over. warm: stripes in turn that no second-level cache holds. cold: stripes in
/// turn that no cache holds.
constexpr std::string_view hot = "hot", warm = "warm", cold = "cold";

/// Cases that answer one question.
struct Section {
  std::string name;
  std::vector<std::string> ops;
  std::vector<Shape> shapes;
  std::vector<std::size_t> lengths;  ///< of a chunk
  std::string_view temperature;
  std::vector<Layout> layouts;
};

const std::vector<Shape> all_shapes{{4, 2}, {8, 3}, {8, 4}, {10, 4}, {16, 4}, {20, 4}, {32, 8}, {64, 16}};
const std::vector<Shape> narrow{{4, 2}, {6, 3}, {8, 3}, {8, 4}, {10, 4}, {16, 4}, {20, 4}};

/// A chunk of an object store: no multiple of 64.
constexpr std::size_t odd = 104'858;

const std::vector<Section> sections{
    {"cold", {"encode"}, all_shapes, {mib}, cold, {contiguous, scattered}},
    {"hot", {"encode"}, all_shapes, {4 * kib}, hot, {contiguous}},
    {"decode", {"encode", "decode"}, all_shapes, {64 * kib}, hot, {contiguous}},
    // Everywhere between the first cache and memory, for a comparison with another library.
    {"peer",
     {"encode", "decode"},
     narrow,
     {kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib},
     hot,
     {contiguous}},
    {"peer", {"encode", "decode"}, narrow, {4 * kib, 64 * kib, odd, mib}, hot, {scattered}},
    {"peer", {"encode", "decode"}, narrow, {kib + 1, 4 * kib - 1, 4 * kib + 1, odd}, hot, {unaligned}},
    {"peer", {"encode", "decode"}, narrow, {4 * kib, odd}, warm, {scattered}},
    {"peer", {"encode", "decode"}, narrow, {4 * kib, odd, mib, 4 * mib}, cold, {scattered}},
    {"peer", {"encode", "decode"}, narrow, {mib}, cold, {contiguous}},
    {"peer", {"encode"}, {{4, 2}, {10, 4}}, {64 * mib}, cold, {contiguous}}};

const std::vector<std::string> section_names{"cold", "hot", "decode", "peer"};

/// More than the last-level cache holds.
std::size_t cold_bytes() { return std::max(256 * mib, 3 * cache_bytes(3)); }

/// More than the second-level cache of this CPU holds, and less than the last.
std::size_t warm_bytes() { return std::max(4 * mib, 4 * cache_bytes(2)); }

std::size_t turns_of(std::string_view temperature, const CpuCase& c) {
  if (temperature == hot) return 1;
  const std::size_t pool = temperature == warm ? warm_bytes() : cold_bytes();
  return std::max<std::size_t>(pool / (c.k * c.chunk_bytes), 2);
}

/// Each coder beside the fastest bound, the ISA-L that the plugin loads, and those of --isal.
void add_rows(const CpuCase& c, std::string_view temperature, const std::vector<Contestant>& contestants,
              const Figures& figures, Report& report) {
  const auto bound = figures.fastest(bound_prefix);
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    const std::string& coder = contestants[i].name;
    // A bound that did not move what it should is as wrong as a coder.
    if (figures.verified(i) && coder.starts_with(bound_prefix)) continue;
    const Row row{
        {"coder", coder},
        {"layout", c.layout.name},
        {"temperature", temperature},
        {"call_us", 1e6 * figures.call_seconds(i)},
        {"source_gbps", figures.per_second(i, c.gb())},
        {"ratio_limit", figures.times(i, bound)},
        {"ratio_isal", figures.times(i, figures.find("isal"))},
        {"ratio_peer", coder.starts_with("isal") ? Value() : figures.times(i, figures.fastest("isal:"))},
        {"noise", figures.noise_percent(i)}};
    report.add(row_of(c, row), figures.verified(i));
  }
}

int measure_cpu(const CommandLine& line) {
  const auto wanted = line.list("sections", section_names);
  const auto shapes = line.shapes("shapes");
  const auto lengths = line.numbers("chunks", 1, gib);
  std::vector<std::string> techniques;
  if (line.given("techniques")) techniques = line.list("techniques", {"reed_sol_van", "cauchy"});
  std::vector<std::pair<CpuCase, std::string_view>> cases;  // and how warm their stripes are
  for (const Section& section : sections) {
    if (std::ranges::find(wanted, section.name) == wanted.end()) continue;
    for (const auto& [k, m] : shapes.empty() ? section.shapes : shapes) {
      // With no techniques each shape has its own.
      auto of_shape = techniques;
      if (of_shape.empty()) of_shape.emplace_back(gf::name(technique_for({k, m})));
      for (const std::string& technique : of_shape)
        for (const std::size_t length : lengths.empty() ? section.lengths : lengths)
          for (const Layout& layout : section.layouts)
            for (const auto& op : section.ops)
              cases.push_back(
                  {{{op, require_shape(*gf::parse_technique(technique), {k, m}), k, m, length}, layout},
                   section.temperature});
    }
  }
  const auto coders = line.list("coders", all_coders());
  std::vector<LoadedIsal> loaded;
  for (const auto& file : line.list("isal")) {
    loaded.push_back(load_isal(file));
    if (const auto& name = loaded.back().name; std::ranges::count(loaded, name, &LoadedIsal::name) > 1)
      throw UsageError(fmt::format("--isal {}: {} is there twice", file, name));
  }
  const bool by_cpu = line.text("clock", {"wall", "cpu"}) == "cpu";
  const Pace pace{.rounds = line.number("rounds", 1, most_rounds),
                  .sample_seconds = line.seconds("sample-ms")};
  Report report(line, {isal_line(),
                       {"second-level cache", fmt::format("{} KiB", cache_bytes(2) >> 10)},
                       {"warm pool", fmt::format("{} MiB of sources", warm_bytes() >> 20)},
                       {"cold pool", fmt::format("{} MiB of sources", cold_bytes() >> 20)}});
  Workers workers(1);
  for (const auto& [c, temperature] : cases) {
    const StripeOrder order{.turns = turns_of(temperature, c), .checked_turns = 8};
    auto contestants = coding_contestants(c, order.turns, coders, loaded);
    // What another one wrote past the caches is in them again.
    for (Contestant& each : contestants)
      if (temperature != cold)
        each.prepare = [&run = each.run, &order] {
          for (std::size_t stripe = 0; stripe < order.turns; ++stripe) run(stripe);
        };
    const auto results = measure(workers, contestants, order, pace);
    add_rows(c, temperature, contestants, Figures(contestants, results, by_cpu), report);
  }
  return report.finish();
}

}  // namespace

Subcommand cpu() {
  return {
      "cpu",
      {{"sections", "", fmt::format("of {}; default all", fmt::join(section_names, ", "))},
       {"shapes", "", "data+coding chunks; default: those of the section"},
       {"techniques", "", "reed_sol_van, cauchy; default: cauchy where the other does not have the shape"},
       {"chunks", "", "bytes of a chunk; default: those of the section"},
       {"coders", "", fmt::format("of {}; default all", fmt::join(all_coders(), ", "))},
       {"isal", "", "further libisal.so to load and compare; the fastest one is the peer of ratio_peer"},
       {"rounds", "31", "samples of each contestant, taken in turn"},
       {"sample-ms", "2", "shortest time of a sample"},
       {"clock", "wall", "wall, or cpu: what the process had of the CPU, on a machine that others use too"}},
      measure_cpu};
}

}  // namespace ec::bench
