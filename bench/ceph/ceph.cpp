// What `ec_bench ceph` runs: plugins behind the interface of the Ceph of this host, several in this process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "bench/ceph/calls.hpp"
#include "bench/ceph/plugins.hpp"
#include "bench/common/memory_bound.hpp"
#include "bench/common/report.hpp"
#include "tests/host/plugin_host.hpp"

namespace ec::bench {
namespace {

Row row_of(const CephCase& c, const Contestant& coder, const std::string& isal) {
  return {{"op", c.op},
          {"technique", gf::name(c.technique)},
          {"k", c.k},
          {"m", c.m},
          {"object_bytes", c.object_bytes},
          {"chunk_bytes", c.chunk_bytes},
          {"threads", c.threads},
          {"stripes", c.threads * c.turns},
          {"coder", coder.name},
          {"isal", isal}};
}

void measure_case(CephCase c, std::size_t memory, const Plugins& plugins, bool tentacle, const Pace& pace,
                  Report& report) {
  c.technique = plugins.technique_for(c.k, c.m);
  std::vector<Coder> coders;
  for (const Plugin& plugin : plugins.list()) {
    coders.emplace_back(plugin.name, plugins.make_code(plugin, c.technique, c.k, c.m));
    // Its slot is the same in all releases.
    const std::size_t bytes = coders.back().second->get_chunk_size(static_cast<unsigned>(c.object_bytes));
    if (c.chunk_bytes != 0 && bytes != c.chunk_bytes)
      throw std::runtime_error(fmt::format("{}: chunks of {} bytes, and of {} by {}", plugin.name, bytes,
                                           c.chunk_bytes, coders.front().first));
    c.chunk_bytes = bytes;
  }
  c.turns = std::max<std::size_t>(memory / (c.chunk_bytes * (c.k + c.m) * c.threads), 1);
  const auto contestants = ceph_contestants(c, coders, tentacle);
  // Whose ISA-L Ceph's plugins run is seen, and not believed. Ours compares a sample of its calls by any.
  std::vector<std::string> isal(coders.size());
  for (std::size_t i = 0; i < coders.size(); ++i) {
    if (coders[i].first == "cuda") continue;
    isal[i] = plugins.isal_of([&] { contestants[i].run(0); });
    const bool by_peer = plugins.list()[i].by_peer;
    if ((!by_peer && !isal[i].empty()) || (by_peer && isal[i].empty() && c.op == "encode" && c.m > 1))
      throw std::runtime_error(fmt::format("{} {}+{}: {} ran {} ISA-L", c.op, c.k, c.m, coders[i].first,
                                           by_peer ? "its own" : "another plugin's"));
  }
  Workers workers(c.threads);
  const auto results = measure(workers, contestants, {c.threads, c.turns, 2}, pace);
  const Figures figures(contestants, results);
  const auto stock = figures.find("isa") ? figures.find("isa") : figures.find("jerasure");
  const auto peer = figures.fastest("isa:");
  const auto bound = figures.fastest(bound_prefix);
  for (std::size_t i = 0; i < coders.size(); ++i) {
    Row row = row_of(c, contestants[i], isal[i]);
    const bool verified = results[i].verified;
    const auto times = [&](std::optional<std::size_t> base) {
      return verified && base ? Value(figures.times(i, *base)) : Value();
    };
    const double gbps =
        verified ? 1e-9 * c.threads * static_cast<double>(c.chunk_bytes) / figures.call_seconds(i) : 0;
    row.insert(row.end(), {{"call_us", verified ? Value(1e6 * figures.call_seconds(i)) : Value()},
                           {"object_gbps", gbps * c.k},
                           {"moved_gbps", gbps * c.moved_chunks()},
                           {"ratio_limit", times(bound)},
                           {"ratio", times(stock)},
                           {"ratio_peer", times(peer)},
                           {"noise", verified ? Value(figures.noise_percent(i)) : Value()}});
    report.add(row, verified);
  }
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const std::string host = host::PluginHost::version();
  const bool tentacle = host.starts_with("20.");
  std::vector<CephCase> cases;
  for (const auto& op : line.list("ops", ops_of(tentacle)))
    for (const Shape& shape : line.shapes("shapes"))
      for (const std::size_t size : line.numbers("sizes", 1, std::size_t{1} << 31))
        for (const std::size_t threads : line.numbers("threads", 1, 1024)) {
          technique_for(shape);
          cases.push_back({.op = op,
                           .technique = {},
                           .k = shape.first,
                           .m = shape.second,
                           .object_bytes = size,
                           .threads = static_cast<unsigned>(threads)});
        }
  const std::size_t memory = line.number("memory", 0, std::size_t{1} << 34);
  const Pace pace{.rounds = line.number("rounds", 1, 100'000), .sample_seconds = line.seconds("sample-ms")};
  Report report(line.text("csv"));
  const Plugins plugins(line.list("plugin"), line.text("isal"));
  report.begin(make_header("Ceph " + host, "ceph", arguments, {}));
  for (const CephCase& c : cases) measure_case(c, memory, plugins, tentacle, pace, report);
  return report.finish();
}

}  // namespace
}  // namespace ec::bench

int main(int argc, char** argv) {
  using namespace ec::bench;
  CommandLine line("ceph");
  line.add("plugin", "cuda,isa",
           "plugins, NAME or NAME=DIRECTORY of libec_NAME.so; cuda,jerasure: jerasure's reed_sol_van");
  line.add("isal", "", "a libisal.so by which the plugin isa is to code too, beside isa with its own");
  line.add("ops", "encode",
           fmt::format("functions: {}; under Ceph 16 to 19: {}", fmt::join(ops_of(true), ", "),
                       fmt::join(ops_of(false), ", ")));
  line.add("shapes", "4+2,8+3,10+4", "data+coding chunks");
  line.add("sizes", "16K,256K,4M,64M",
           "object bytes of one call (k x chunk, before padding), suffixes K, M, G");
  line.add("threads", "1", "threads, each coding stripes of its own");
  line.add("memory", "0", "bytes of stripes that calls go round; 0: a stripe for each thread, over and over");
  line.add("rounds", "15", "samples of each plugin, taken in turn");
  line.add("sample-ms", "10", "shortest time of a sample");
  add_report_option(line);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return line.run(arguments, [&] { return run(line, arguments); });
}
