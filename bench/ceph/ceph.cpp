// What `ec_bench ceph` runs: plugins behind Ceph's classic interface, several in this process.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include "bench/ceph/plugins.hpp"
#include "bench/common/measure.hpp"
#include "bench/common/random.hpp"
#include "bench/common/report.hpp"
#include "bench/common/stats.hpp"
#include "kernels/program.hpp"
#include "kernels/reference/reference.hpp"
#include "tools/host/plugin_host.hpp"

namespace ec::bench {
namespace {

using ceph::bufferlist;
using Chunks = std::map<int, bufferlist>;

/// A buffer as a network message leaves it: aligned to a page.
bufferlist make_object(std::size_t bytes, std::uint64_t seed) {
  ceph::bufferptr whole(ceph::buffer::create_aligned(static_cast<unsigned>(bytes), 4096));
  fill_random({reinterpret_cast<std::uint8_t*>(whole.c_str()), bytes}, seed);
  bufferlist object;
  object.append(whole);
  return object;
}

/// All k + m chunks of an object, made by the reference back end.
Chunks reference_chunks(const Case& c, const bufferlist& object) {
  const kernels::Program program(gf::coding_matrix(c.technique, c.k, c.m));
  Chunks chunks;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < c.k + c.m; ++i) {
    ceph::bufferptr buffer(ceph::buffer::create_aligned(static_cast<unsigned>(c.chunk_bytes), 4096));
    const std::size_t begin = std::min<std::size_t>(i * c.chunk_bytes, object.length());
    const std::size_t bytes = i < c.k ? std::min(object.length() - begin, c.chunk_bytes) : 0;
    std::memset(buffer.c_str(), 0, c.chunk_bytes);
    auto from = object.begin();
    from += static_cast<unsigned>(begin);
    from.copy(static_cast<unsigned>(bytes), buffer.c_str());
    auto* const data = reinterpret_cast<std::uint8_t*>(buffer.c_str());
    if (i < c.k)
      sources.push_back({data});
    else
      targets.push_back({data});
    chunks[static_cast<int>(i)].push_back(std::move(buffer));
  }
  if (kernels::reference_backend().transform({&program, sources, targets, c.chunk_bytes}) !=
      kernels::Status::ok)
    throw std::runtime_error("reference does not code the object");
  return chunks;
}

/// The objects of a case and, where it decodes, their surviving chunks.
struct Objects {
  explicit Objects(const Case& c) : what(c) {
    for (unsigned i = 0; i < c.k + c.m; ++i) all.insert(static_cast<int>(i));
    for (unsigned i = 0; i < c.erasures; ++i) lost.insert(static_cast<int>(i));
    for (std::size_t s = 0; s < c.threads; ++s) {
      objects.push_back(make_object(c.object_bytes, s * 1'000'003 + c.object_bytes));
      if (c.op == "encode") continue;
      Chunks& left = survivors.emplace_back(reference_chunks(c, objects.back()));
      for (int chunk : lost) left.erase(chunk);
    }
  }

  Case what;
  std::set<int> all;
  std::set<int> lost;
  std::vector<bufferlist> objects;
  std::vector<Chunks> survivors;
};

/// Calls of one plugin on them.
class PluginCalls {
 public:
  PluginCalls(std::string plugin, ceph::ErasureCodeInterfaceRef code, std::shared_ptr<const Objects> objects)
      : plugin_(std::move(plugin)), code_(std::move(code)), objects_(std::move(objects)) {}

  /// What the call hands out: chunks by their index; of a read, the data as one.
  Chunks call(std::size_t stripe) const {
    const Case& c = objects_->what;
    Chunks out;
    const int answer = c.op == "encode"   ? code_->encode(objects_->all, objects_->objects[stripe], &out)
                       : c.op == "decode" ? code_->decode(objects_->lost, objects_->survivors[stripe], &out,
                                                          static_cast<int>(c.chunk_bytes))
                                          : code_->decode_concat(objects_->survivors[stripe], &out[0]);
    if (answer != 0)
      throw std::runtime_error(fmt::format("{}: {}: {}", plugin_, c.op, std::strerror(-answer)));
    return out;
  }

  /// Of a call of its own, for results are handed out and not left anywhere.
  bool right(std::size_t stripe) const {
    const Case& c = objects_->what;
    Chunks expected = reference_chunks(c, objects_->objects[stripe]);
    if (c.op == "decode")
      std::erase_if(expected, [&](const auto& e) { return !objects_->lost.contains(e.first); });
    if (c.op != "encode" && c.op != "decode") {
      bufferlist data;
      for (unsigned i = 0; i < c.k; ++i) data.append(expected.at(static_cast<int>(i)));
      expected = {{0, data}};
    }
    const Chunks made = call(stripe);
    return std::ranges::all_of(expected, [&](const auto& chunk) {
      return made.contains(chunk.first) && made.at(chunk.first).contents_equal(chunk.second);
    });
  }

 private:
  std::string plugin_;
  ceph::ErasureCodeInterfaceRef code_;
  std::shared_ptr<const Objects> objects_;
};

constexpr std::string_view jerasure = "jerasure";

/// Beside jerasure, which has no other matrix in common with anyone, all code its reed_sol_van.
gf::Technique technique_beside(const std::vector<std::string>& plugins, Shape shape) {
  const bool has_jerasure =
      std::ranges::any_of(plugins, [](const std::string& text) { return PluginName(text).name == jerasure; });
  return has_jerasure ? gf::Technique::jerasure_reed_sol_van : technique_for(shape);
}

/// The plugins on the same objects, one for each thread. Throws UsageError.
std::vector<Contestant> line_up(const std::vector<std::string>& plugins, const Case& c) {
  const auto objects = std::make_shared<const Objects>(c);
  std::vector<Contestant> list;
  for (const auto& text : plugins) {
    const PluginName plugin(text);
    auto code = make_code(plugin, c.technique, c.k, c.m);
    if (const auto size = code->get_chunk_size(static_cast<unsigned>(c.object_bytes)); size != c.chunk_bytes)
      throw std::runtime_error(
          fmt::format("{}: chunks of {} bytes, expected {}", plugin.name, size, c.chunk_bytes));
    const auto calls = std::make_shared<const PluginCalls>(plugin.name, std::move(code), objects);
    list.push_back({.name = plugin.name,
                    .threads = c.threads,
                    .run = [calls](std::size_t stripe) { calls->call(stripe); },
                    .right = [calls](std::size_t stripe) { return calls->right(stripe); }});
  }
  return list;
}

/// Every combination of the options, in the order of the report.
std::vector<Case> cases_of(const CommandLine& line) {
  constexpr std::size_t chunk_granularity = 32;
  constexpr std::size_t largest_size = std::size_t{1} << 31;
  const auto plugins = line.list("plugin");
  std::vector<Case> cases;
  for (const auto& op : line.list("ops", {"encode", "decode", "read", "degraded-read"}))
    for (const auto& [k, m] : line.shapes("shapes"))
      for (const std::size_t size : line.numbers("sizes", 1, largest_size))
        for (const std::size_t threads : line.numbers("threads", 1, 1024)) {
          Case c{
              .op = op, .technique = technique_beside(plugins, {k, m}), .k = k, .m = m, .object_bytes = size};
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

Row row_of(const Case& c, const std::string& plugin, const Result& result, const Result* base) {
  Row row{{"op", c.op},
          {"technique", gf::name(c.technique)},
          {"k", c.k},
          {"m", c.m},
          {"erasures", c.erasures},
          {"object_bytes", c.object_bytes},
          {"chunk_bytes", c.chunk_bytes},
          {"threads", c.threads},
          {"backend", plugin},
          {"path", "pageable"},
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

/// All plugins on one case.
void measure_case(const Case& c, const std::vector<Contestant>& plugins, const Pace& pace, Report& report) {
  Workers workers(c.threads);
  const auto results = measure(workers, plugins, {c.threads, 1, 1}, pace);
  const Result* base = nullptr;  // isa, or jerasure
  for (std::size_t i = 0; i < plugins.size(); ++i)
    if ((plugins[i].name == "isa" || plugins[i].name == jerasure) && results[i].verified) base = &results[i];
  for (std::size_t i = 0; i < plugins.size(); ++i) report.add(row_of(c, plugins[i].name, results[i], base));
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const auto cases = cases_of(line);
  const Pace pace{.rounds = line.number("rounds", 1, 100'000), .sample_seconds = line.seconds("sample-ms")};
  Report report(line.text("json"));
  report.begin(make_header("Ceph " + host::PluginHost::version(), "ceph", arguments, {}));
  for (const Case& c : cases) measure_case(c, line_up(line.list("plugin"), c), pace, report);
  return report.finish();
}

}  // namespace
}  // namespace ec::bench

int main(int argc, char** argv) {
  using namespace ec::bench;
  CommandLine line("ceph");
  line.add("plugin", "cuda,isa",
           "plugins, NAME or NAME=DIRECTORY of libec_NAME.so; cuda,jerasure: jerasure's reed_sol_van");
  line.add("ops", "encode", "operations: encode, decode, read, degraded-read");
  line.add("shapes", "4+2,8+3,10+4", "data+coding chunks");
  line.add("sizes", "16K,256K,4M,64M",
           "object bytes of one stripe (k x chunk, before padding), suffixes K, M, G");
  line.add("threads", "1", "threads, each coding a stripe of its own over and over");
  line.add("rounds", "15", "samples of each plugin, taken in turn");
  line.add("sample-ms", "10", "shortest time of a sample");
  line.add("json", "", "write the report to this file too");
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return line.run(arguments, [&] { return run(line, arguments); });
}
