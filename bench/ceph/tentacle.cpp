// What `ec_bench tentacle` runs: plugins behind the interface of Ceph 20, several in this process, beside the
// memory bound. The host must be one of Ceph 20: tools/ceph-release runs it in one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <memory>
#include <stdexcept>

#include "bench/ceph/plugins.hpp"
#include "bench/common/measure.hpp"
#include "bench/common/options.hpp"
#include "bench/common/random.hpp"
#include "bench/common/report.hpp"
#include "bench/common/stats.hpp"
#include "bench/cpu/memory_bound.hpp"
#include "ceph/tentacle.h"
#include "kernels/program.hpp"
#include "kernels/reference/reference.hpp"
#include "tools/host/plugin_host.hpp"

namespace ec::bench {
namespace {

using ceph::bufferptr;
using ceph::tentacle::BufferMap;
using Interface = ceph::tentacle::ErasureCodeInterface;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* ops[] = {"encode",     "encode-one",   "encode-delta", "apply-delta",
                               "decode-one", "decode-spare", "decode"};
constexpr std::size_t page = 4096;
/// The data shard that an overwrite changes: where no coefficient but that of the first coding shard is one.
constexpr unsigned changed = 1;

struct Case {
  std::string op;
  gf::Technique technique;
  unsigned k, m;
  std::size_t chunk_bytes;

  /// Data shards, from the first on, that are lost.
  unsigned erasures() const { return op == "decode" ? m : op.starts_with("decode-") ? 1 : 0; }
  /// Shards that a decode is given: as many as it needs, which is what an OSD reads, or all that are left.
  unsigned survivors() const { return op == "decode-spare" ? k + m - 1 : k; }
};

/// All k + m chunks of a stripe, made by the reference back end.
std::vector<Bytes> stripe_of(const Case& c, std::uint64_t seed_of_changed) {
  std::vector<Bytes> chunks(c.k + c.m, Bytes(c.chunk_bytes));
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < c.k; ++i) {
    fill_random(chunks[i], i == changed ? seed_of_changed : i);
    sources.push_back({chunks[i].data()});
  }
  for (unsigned i = c.k; i < c.k + c.m; ++i) targets.push_back({chunks[i].data()});
  const kernels::Program program(gf::coding_matrix(c.technique, c.k, c.m));
  if (kernels::reference_backend().transform({&program, sources, targets, c.chunk_bytes}) !=
      kernels::Status::ok)
    throw std::runtime_error("the reference does not code the stripe");
  return chunks;
}

/// A stripe before and after an overwrite, and what each chunk changes by.
struct Known {
  explicit Known(const Case& c) : before(stripe_of(c, 1000)), after(stripe_of(c, 2000)), delta(before) {
    for (std::size_t chunk = 0; chunk < delta.size(); ++chunk)
      for (std::size_t i = 0; i < c.chunk_bytes; ++i) delta[chunk][i] ^= after[chunk][i];
  }

  std::vector<Bytes> before, after, delta;
};

/// What a call gets and what it leaves: buffers at the start of a page, as an OSD has them; the data of an
/// encode is one buffer in the order of the object.
class Stripe {
 public:
  Stripe(const Case& c, const Known& known) : in_(c.k + c.m), out_(c.k + c.m) {
    if (c.op == "encode-delta") {
      old_ = read(known.before[changed]);
      new_ = read(known.after[changed]);
      delta_ = write(known.before[changed], known.delta[changed]);
    } else if (c.op == "apply-delta") {
      insert(in_, changed, read(known.delta[changed]));
      for (unsigned i = c.k; i < c.k + c.m; ++i) {
        insert(out_, i, write(known.before[i], known.after[i]));
        sources_.push_back({targets_.back().data});
      }
    } else if (c.op == "encode-one") {
      insert(in_, changed, read(known.delta[changed]));
      for (unsigned i = c.k; i < c.k + c.m; ++i) insert(out_, i, write({}, known.delta[i]));
    } else if (c.op == "encode") {
      const bufferptr object = make_buffer(c.k * c.chunk_bytes);
      for (unsigned i = 0; i < c.k; ++i)
        insert(in_, i,
               read(known.before[i], bufferptr(object, static_cast<unsigned>(i * c.chunk_bytes),
                                               static_cast<unsigned>(c.chunk_bytes))));
      for (unsigned i = c.k; i < c.k + c.m; ++i) insert(out_, i, write({}, known.before[i]));
    } else {
      for (unsigned i = 0; i < c.k + c.m && in_.entries < c.survivors(); ++i)
        if (i >= c.erasures()) insert(in_, i, read(known.before[i]));
      for (unsigned i = 0; i < c.erasures(); ++i) {
        insert(out_, i, write({}, known.before[i]));
        want_.words[i / 64] |= std::uint64_t{1} << i % 64;
      }
    }
  }

  void call(Interface& code, const Case& c) {
    if (c.op == "encode-delta") return code.encode_delta(old_, new_, &delta_);
    if (c.op == "apply-delta") return code.apply_delta(in_, out_);
    const int answer =
        c.op.starts_with("encode") ? code.encode_chunks(in_, out_) : code.decode_chunks(want_, in_, out_);
    if (answer != 0) throw std::runtime_error(fmt::format("{}: {}", c.op, std::strerror(-answer)));
  }
  /// As it was before the first call.
  void reset() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      std::memset(targets_[i].data, '?', made_[i]->size());
      std::memcpy(targets_[i].data, held_[i]->data(), held_[i]->size());
    }
  }
  bool right() const {
    for (std::size_t i = 0; i < targets_.size(); ++i)
      if (std::memcmp(targets_[i].data, made_[i]->data(), made_[i]->size()) != 0) return false;
    return true;
  }
  Sources sources() const { return sources_; }
  Targets targets() const { return targets_; }

 private:
  static bufferptr make_buffer(std::size_t bytes) {
    return {ceph::buffer::create_aligned(static_cast<unsigned>(bytes), page)};
  }
  static void insert(BufferMap& map, unsigned shard, bufferptr buffer) {
    map.slots[shard].emplace(std::move(buffer));
    ++map.entries;
  }
  bufferptr read(const Bytes& bytes) { return read(bytes, make_buffer(bytes.size())); }
  bufferptr read(const Bytes& bytes, bufferptr buffer) {
    std::memcpy(buffer.c_str(), bytes.data(), bytes.size());
    sources_.push_back({reinterpret_cast<const std::uint8_t*>(buffer.c_str())});
    return buffer;
  }
  /// Holds bytes of `Known`, and is made to hold others.
  bufferptr write(const Bytes& holds, const Bytes& made) {
    bufferptr buffer = make_buffer(made.size());
    targets_.push_back({reinterpret_cast<std::uint8_t*>(buffer.c_str())});
    held_.push_back(holds.empty() ? &nothing() : &holds);
    made_.push_back(&made);
    return buffer;
  }
  static const Bytes& nothing() {
    static const Bytes none;
    return none;
  }

  BufferMap in_, out_;
  ceph::tentacle::ShardIdSet want_;
  bufferptr old_, new_, delta_;
  std::vector<kernels::Source> sources_;  ///< all that a call reads
  std::vector<kernels::Target> targets_;  ///< all that it writes
  std::vector<const Bytes*> held_, made_;
};

/// The stripes of a case: alike, in memory of their own.
struct Stripes {
  Stripes(const Case& c, std::size_t count) : what(c), known(c) {
    for (std::size_t i = 0; i < count; ++i) list.push_back(std::make_unique<Stripe>(c, known));
  }

  Case what;
  Known known;
  std::vector<std::unique_ptr<Stripe>> list;
};

Contestant plugin_contestant(const PluginName& plugin, const std::shared_ptr<Stripes>& stripes) {
  const Case& c = stripes->what;
  const auto code = std::reinterpret_pointer_cast<Interface>(make_code(plugin, c.technique, c.k, c.m));
  const auto run = [code, stripes](std::size_t s) { stripes->list[s]->call(*code, stripes->what); };
  // Of a call of its own: a second delta takes the first one back.
  const auto right = [run, stripes](std::size_t s) {
    stripes->list[s]->reset();
    run(s);
    return stripes->list[s]->right();
  };
  return {.name = plugin.name, .run = run, .right = right};
}

Contestant bound_contestant(const Walk& walk, const std::shared_ptr<Stripes>& stripes) {
  const auto run = [&walk, stripes](std::size_t s) {
    const Stripe& stripe = *stripes->list[s];
    move_bytes(walk, stripe.sources(), stripe.targets(), stripes->what.chunk_bytes);
  };
  return {.name = "limit: " + walk.name, .run = run, .right = [](std::size_t) { return true; }};
}

void measure_case(const Case& c, std::size_t memory, const std::vector<PluginName>& plugins, const Pace& pace,
                  Report& report) {
  const std::size_t count = std::max<std::size_t>(memory / (c.chunk_bytes * (c.k + c.m)), 1);
  const auto stripes = std::make_shared<Stripes>(c, count);
  std::vector<Contestant> contestants;
  for (const PluginName& plugin : plugins) contestants.push_back(plugin_contestant(plugin, stripes));
  for (const Walk& walk : walks()) contestants.push_back(bound_contestant(walk, stripes));
  Workers workers(1);
  const auto results = measure(workers, contestants, {1, count, 2}, pace);
  const Result* isa = nullptr;
  const Result* bound = nullptr;
  const auto seconds = [](const Result& result) { return median(call_seconds(result, 1)); };
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (contestants[i].name == "isa" && results[i].verified) isa = &results[i];
    if (i >= plugins.size() && (bound == nullptr || seconds(results[i]) < seconds(*bound)))
      bound = &results[i];
  }
  const Stripe& stripe = *stripes->list[0];
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    Row row{{"op", c.op},
            {"technique", gf::name(c.technique)},
            {"k", c.k},
            {"m", c.m},
            {"chunk_bytes", c.chunk_bytes},
            {"stripes", count},
            {"backend", contestants[i].name},
            {"verified", results[i].verified},
            {"call_us", nullptr},
            {"noise_percent", nullptr},
            {"moved_gbps", nullptr},
            {"ratio_limit", nullptr},
            {"ratio", nullptr}};
    if (results[i].verified) {
      const auto moved =
          static_cast<double>((stripe.sources().size() + stripe.targets().size()) * c.chunk_bytes);
      row["call_us"] = 1e6 * seconds(results[i]);
      row["noise_percent"] = noise_percent(call_seconds(results[i], 1));
      row["moved_gbps"] = 1e-9 * moved / seconds(results[i]);
      row["ratio_limit"] = speed_ratio(results[i], *bound);
      if (isa != nullptr) row["ratio"] = speed_ratio(results[i], *isa);
    }
    report.add(row);
  }
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const std::string host = host::PluginHost::version();
  if (!host.starts_with("20."))
    throw std::runtime_error(
        fmt::format("this host is Ceph {}, and must be 20: see tools/ceph-release", host));
  std::vector<PluginName> plugins;
  for (const auto& text : line.list("plugin")) plugins.emplace_back(text);
  const Pace pace{.rounds = line.number("rounds", 1, 100'000), .sample_seconds = line.seconds("sample-ms")};
  Report report(line.text("json"));
  report.begin(make_header("Ceph " + host, "tentacle", arguments, {}));
  for (const std::size_t memory : line.numbers("memory", 0, std::size_t{1} << 34))
    for (const auto& op : line.list("ops", {std::begin(ops), std::end(ops)}))
      for (const auto& shape : line.shapes("shapes"))
        for (const std::size_t bytes : line.numbers("chunks", 64, std::size_t{1} << 26, 64))
          measure_case({op, technique_for(shape), shape.first, shape.second, bytes}, memory, plugins, pace,
                       report);
  return report.finish();
}

}  // namespace
}  // namespace ec::bench

int main(int argc, char** argv) {
  using namespace ec::bench;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  CommandLine line("tentacle");
  line.add("plugin", "cuda,isa", "plugins, NAME or NAME=DIRECTORY of libec_NAME.so");
  line.add("ops", "",
           fmt::format(
               "of {}; default all. encode-one: all other data is zero and not there; decode: m data shards "
               "are lost, else one; decode-spare: all others are there, else k",
               fmt::join(ops, ", ")));
  line.add("shapes", "4+2,8+3,10+4", "data+coding chunks, two data chunks at least");
  line.add("chunks", "4K,16K,64K,256K,1M", "bytes of a chunk, suffixes K, M, G");
  line.add("memory", "0", "bytes of stripes that calls go round; 0: one stripe over and over");
  line.add("rounds", "15", "samples of each contestant, taken in turn");
  line.add("sample-ms", "10", "shortest time of a sample");
  line.add("json", "", "write the report to this file too");
  return line.run(arguments, [&] { return run(line, arguments); });
}
