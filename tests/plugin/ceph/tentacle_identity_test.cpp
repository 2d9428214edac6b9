// Our plugin against Ceph 20's own isa plugin in one process: every function of both tables on random calls.
// Skipped where the Ceph that is installed is of another release; tools/ceph-release runs it in one of 20.
// EC_TEST_SEED repeats a run, EC_TEST_CALLS says how many calls at least are compared.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "ceph/tentacle.h"
#include "tests/host/plugin_host.hpp"
#include "tests/plugin/ceph/plugin_pair.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;
using ceph::tentacle::BufferMap;
using ceph::tentacle::ListMap;
using ceph::tentacle::ShardIdMap;
using ceph::tentacle::ShardIdSet;
using ceph::tentacle::SubChunks;
using Interface = ceph::tentacle::ErasureCodeInterface;

struct Pair {
  Shape shape;
  ceph::tentacle::ErasureCodeInterfaceRef ours, stock;

  explicit Pair(const PluginPair& pair)
      : shape(pair.shape),
        ours(std::reinterpret_pointer_cast<Interface>(pair.ours)),
        stock(std::reinterpret_pointer_cast<Interface>(pair.stock)) {}
  unsigned n() const { return shape.k + shape.m; }
};

Chunks chunks_of(const ListMap& map) {
  Chunks chunks;
  for (std::size_t s = 0; s < map.slots.size(); ++s)
    if (map.slots[s]) chunks[static_cast<int>(s)] = *map.slots[s];
  EXPECT_EQ(chunks.size(), map.entries);
  return chunks;
}
/// One draw: a stripe of a shape, and calls on it.
class Comparison {
 public:
  Comparison(const Pair& pair, Draw& draw) : pair_(pair), draw_(draw) {
    const unsigned chunk = draw.number(0, 3) == 0 ? 32 * static_cast<unsigned>(draw.number(1, 64))
                                                  : 4096 * static_cast<unsigned>(draw.number(1, 3));
    object_ = draw.bytes(std::size_t{pair.shape.k} * chunk, static_cast<unsigned>(draw.number(1, 9)));
    EXPECT_EQ(pair.stock->encode(first_chunks(pair.n()), object_, &right_), 0);
    for (auto& [s, list] : right_) bytes_[s] = flat(list);
  }

  void run() {
    compare_sizes();
    compare_encode();
    compare_encode_chunks();
    compare_delta();
    compare_reads();
    compare_decode();
    compare_decode_chunks();
  }

  static std::uint64_t calls;  ///< that were made of both

 private:
  Shards all() const { return first_chunks(pair_.n()); }
  Shards data() const { return first_chunks(pair_.shape.k); }
  Shards coding() const {
    Shards shards = all();
    for (int s : data()) shards.erase(s);
    return shards;
  }
  Shards some(const Shards& of, std::size_t least = 0) {
    return draw_.subset(of, static_cast<unsigned>(draw_.number(least, of.size())));
  }

  template <class Call>
  void same(const char* what, Call call) {
    ++calls;
    EXPECT_EQ(call(*pair_.ours), call(*pair_.stock)) << what;
  }

  void compare_sizes() {
    const auto width = static_cast<unsigned>(draw_.number(1, 1 << 24));
    same("chunk size", [&](Interface& code) { return code.get_chunk_size(width); });
    same("counts", [](Interface& code) {
      return std::vector{code.get_chunk_count(), code.get_data_chunk_count(), code.get_coding_chunk_count(),
                         static_cast<unsigned>(code.get_sub_chunk_count())};
    });
    same("mapping", [](Interface& code) { return code.get_chunk_mapping().size(); });
    same("granularity", [](Interface& code) { return code.get_minimum_granularity(); });
    same("optimizations", [](Interface& code) { return code.get_supported_optimizations(); });
    same("their names", [](Interface& code) { return code.get_optimizations_flags_string(); });
    same("technique", [](Interface& code) { return code.get_profile().at("technique"); });
  }

  void compare_encode() {
    const Shards wanted = some(all());
    const auto classic = [&](Interface& code) {
      Chunks out;
      EXPECT_EQ(code.encode(wanted, object_, &out), 0);
      return out;
    };
    const auto tentacle = [&](Interface& code) {
      ShardIdSet want;
      fill(want, wanted);
      ListMap out(pair_.n());
      EXPECT_EQ(code.encode(want, object_, &out), 0);
      return chunks_of(out);
    };
    for (const auto& encode : {std::function<Chunks(Interface&)>(classic), {tentacle}}) {
      ++calls;
      const Chunks ours = encode(*pair_.ours), stock = encode(*pair_.stock);
      EXPECT_EQ(ours.size(), wanted.size());
      EXPECT_EQ(difference(ours, stock, wanted), "");
    }
  }

  void compare_encode_chunks() {
    same("encode_chunks of all", [&](Interface& code) {
      Chunks chunks = deep_copy(right_);
      for (int s : coding()) chunks[s].zero();
      EXPECT_EQ(code.encode_chunks(all(), &chunks), 0);
      return difference(chunks, right_, all());
    });
    const Shards present = some(data(), 1), wanted = some(coding(), 1), zeros = some(present);
    const bufferptr zero = buffer_of(std::string(bytes_[0].size(), '\0'));
    same("encode_chunks", [&](Interface& code) {
      BufferMap in(pair_.n()), out(pair_.n());
      for (int s : present) insert(in, s, zeros.contains(s) ? zero : buffer_of(bytes_[s]));
      // isa has one buffer for absent inputs and absent outputs, and so reads what it wrote.
      for (int s : &code == pair_.stock.get() ? coding() : wanted)
        insert(out, s, buffer_of(std::string(bytes_[0].size(), '?')));
      EXPECT_EQ(code.encode_chunks(in, out), 0);
      for (int s : present)
        EXPECT_EQ(text(at(in, s)), zeros.contains(s) ? text(zero) : bytes_[s]) << "an input changed";
      return written(out, wanted);
    });
    EXPECT_EQ(text(zero), std::string(zero.length(), '\0'));
  }

  void compare_delta() {
    const Shards changed = some(data(), 1), kept = some(coding(), 1);
    std::map<int, std::string> fresh;
    for (int s : changed) fresh[s] = flat(draw_.bytes(bytes_[s].size(), 1));
    same("encode_delta and apply_delta", [&](Interface& code) {
      BufferMap in(pair_.n()), out(pair_.n());
      std::string deltas;
      for (int s : changed) {
        bufferptr delta = buffer_of(std::string(bytes_[s].size(), '?'));
        code.encode_delta(buffer_of(bytes_[s]), buffer_of(fresh[s]), &delta);
        deltas += text(delta);
        insert(in, s, delta);
      }
      for (int s : kept) insert(out, s, buffer_of(bytes_[s]));
      code.apply_delta(in, out);
      return std::pair(hash(deltas), written(out, kept));
    });
  }

  void compare_reads() {
    const Shards wanted = some(all(), 1), there = some(all());
    const bool direct = std::ranges::includes(there, wanted);
    const auto suffices = [&](const Shards& read) {
      return std::ranges::includes(there, read) && (direct ? read == wanted : read.size() == pair_.shape.k);
    };
    ShardIdSet want, available;
    fill(want, wanted);
    fill(available, there);
    for (const bool with_parts : {false, true})
      same("minimum_to_decode", [&](Interface& code) {
        ShardIdSet minimum;
        ShardIdMap<SubChunks> parts(pair_.n());
        const int answer = code.minimum_to_decode(want, available, minimum, with_parts ? &parts : nullptr);
        if (answer != 0) return std::pair(answer, std::size_t{0});
        const Shards read = shards_of(minimum);
        EXPECT_TRUE(suffices(read)) << fmt::format("{}", fmt::join(read, ","));
        EXPECT_EQ(parts.entries, with_parts ? read.size() : 0u);
        if (with_parts) {
          for (int s : read) EXPECT_EQ(at(parts, s), (SubChunks{{0, 1}}));
        }
        return std::pair(answer, read.size());
      });
    same("minimum_to_decode of sets", [&](Interface& code) {
      std::map<int, SubChunks> minimum;
      const int answer = code.minimum_to_decode(wanted, there, &minimum);
      return std::pair(answer, answer == 0 ? minimum.size() : 0u);
    });
    std::map<int, int> costs;
    ShardIdMap<int> same_costs(pair_.n());
    for (int s : there) insert(same_costs, s, costs[s] = static_cast<int>(draw_.number(0, 9)));
    same("minimum_to_decode_with_cost", [&](Interface& code) {
      ShardIdSet minimum;
      return code.minimum_to_decode_with_cost(want, same_costs, &minimum);
    });
    same("minimum_to_decode_with_cost of sets", [&](Interface& code) {
      Shards minimum;
      return code.minimum_to_decode_with_cost(wanted, costs, &minimum);
    });
  }

  /// Without 1 to m shards.
  Shards survivors() {
    return draw_.subset(all(), static_cast<unsigned>(draw_.number(pair_.shape.k, pair_.n() - 1)));
  }

  void compare_decode() {
    const Shards there = survivors(), wanted = some(all(), 1);
    Chunks chunks;
    for (int s : there) chunks[s] = draw_.in_pieces(bytes_[s], static_cast<unsigned>(draw_.number(1, 4)));
    const auto length = static_cast<int>(bytes_[0].size());
    same("decode of maps", [&](Interface& code) {
      Chunks out;
      EXPECT_EQ(code.decode(wanted, chunks, &out, length), 0);
      return difference(out, right_, wanted);
    });
    same("decode", [&](Interface& code) {
      ShardIdSet want;
      fill(want, wanted);
      ListMap in(pair_.n()), out(pair_.n());
      for (int s : there) insert(in, s, chunks[s]);
      EXPECT_EQ(code.decode(want, in, &out, length), 0);
      return difference(chunks_of(out), right_, wanted);
    });
    same("decode_chunks of maps", [&](Interface& code) {
      Chunks out = deep_copy(right_);
      for (int s : all())
        if (!there.contains(s)) out[s].zero();
      EXPECT_EQ(code.decode_chunks(wanted, chunks, &out), 0);
      return difference(out, right_, all());
    });
    same("decode_concat", [&](Interface& code) {
      bufferlist out;
      EXPECT_EQ(code.decode_concat(chunks, &out), 0);
      return hash(flat(out));
    });
    same("decode_concat of some", [&](Interface& code) {
      bufferlist out;
      EXPECT_EQ(code.decode_concat(wanted, chunks, &out), 0);
      return hash(flat(out));
    });
  }

  void compare_decode_chunks() {
    const Shards there = survivors();
    Shards lost = all();
    for (int s : there) lost.erase(s);
    const Shards wanted = some(lost, 1);
    same("decode_chunks", [&](Interface& code) {
      ShardIdSet want;
      fill(want, wanted);
      BufferMap in(pair_.n()), out(pair_.n());
      for (int s : there) insert(in, s, buffer_of(bytes_[s]));
      for (int s : wanted) insert(out, s, buffer_of(std::string(bytes_[s].size(), '?')));
      EXPECT_EQ(code.decode_chunks(want, in, out), 0);
      for (int s : wanted) EXPECT_TRUE(text(at(out, s)) == bytes_[s]) << "shard " << s;
      return written(out, wanted);
    });
  }

  static std::size_t hash(const std::string& bytes) { return std::hash<std::string>()(bytes); }
  static std::size_t written(BufferMap& out, const Shards& shards) {
    std::string bytes;
    for (int s : shards) bytes += text(at(out, s));
    return hash(bytes);
  }

  const Pair& pair_;
  Draw& draw_;
  bufferlist object_;
  Chunks right_;
  std::map<int, std::string> bytes_;
};

std::uint64_t Comparison::calls = 0;

TEST(TentacleIdentity, RandomCalls) {
  if (!host::PluginHost::version().starts_with("20."))
    GTEST_SKIP() << "this is Ceph " << host::PluginHost::version();
  const std::uint64_t base = base_seed();
  const char* wanted = std::getenv("EC_TEST_CALLS");
  const std::uint64_t calls = wanted == nullptr ? 100'000 : std::strtoull(wanted, nullptr, 10);
  std::vector<Pair> pairs;
  for (const Shape& shape : compared_shapes()) pairs.emplace_back(plugin_pair(shape));
  for (std::uint64_t i = 0; Comparison::calls < calls || i < 2 * pairs.size(); ++i) {
    Draw draw(base + i);
    const Pair& pair = pairs[i < pairs.size() ? i : draw.number(0, pairs.size() - 1)];
    SCOPED_TRACE(fmt::format("{}, draw {} (EC_TEST_SEED={})", describe(pair.shape), i, base));
    Comparison(pair, draw).run();
    if (HasFailure()) return;
  }
  fmt::print("{} calls of both, {} shapes\n", Comparison::calls, pairs.size());
}

}  // namespace
}  // namespace ec::test
