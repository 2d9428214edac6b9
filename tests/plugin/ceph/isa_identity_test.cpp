// Our plugin against Debian's isa plugin in one process: the same bytes, the same sizes, the same answers,
// and each decodes what the other wrote. EC_TEST_SEED repeats a run; every failure names its draw.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/plugin/ceph/plugin_pair.hpp"

namespace ec::test {
namespace {

Chunks encode(ceph::ErasureCodeInterface& code, const std::set<int>& want, const ceph::bufferlist& in) {
  Chunks out;
  EXPECT_EQ(code.encode(want, in, &out), 0);
  return out;
}

/// Encodes `in` with both, compares, and returns all chunks.
Chunks expect_same_encoding(const PluginPair& pair, const ceph::bufferlist& in) {
  const auto all = first_chunks(pair.shape.k + pair.shape.m);
  const std::string before = flat(in);
  const Chunks ours = encode(*pair.ours, all, in);
  const Chunks stock = encode(*pair.stock, all, in);
  EXPECT_EQ(difference(ours, stock, all), "");
  EXPECT_TRUE(flat(in) == before) << "the input has changed";
  return stock;
}

/// Has both decode `chunks` without `lost`, and compares what was lost with what it was.
void expect_decodes(const PluginPair& pair, const Chunks& chunks, const std::set<int>& lost) {
  const Chunks survivors = without(chunks, lost);
  const Chunks before = deep_copy(survivors);
  for (auto* code : {&pair.ours, &pair.stock}) {
    Chunks decoded;
    ASSERT_EQ((*code)->decode(lost, survivors, &decoded, static_cast<int>(chunks.begin()->second.length())),
              0);
    EXPECT_EQ(difference(decoded, chunks, lost), "") << (code == &pair.ours ? "ours" : "stock");
    for (const auto& [c, bytes] : before)
      EXPECT_EQ(difference(survivors, before, {c}), "") << "a survivor changed";
  }
}

void expect_same_concat(const PluginPair& pair, const Chunks& chunks, const std::set<int>& lost,
                        const ceph::bufferlist& in) {
  const Chunks survivors = without(chunks, lost);
  ceph::bufferlist ours, stock;
  ASSERT_EQ(pair.ours->decode_concat(survivors, &ours), 0);
  ASSERT_EQ(pair.stock->decode_concat(survivors, &stock), 0);
  EXPECT_TRUE(ours.contents_equal(stock));
  EXPECT_TRUE(flat(ours).starts_with(flat(in)));
}

/// The calls on whole sets of chunks that are overwritten in place.
void expect_same_in_place(const PluginPair& pair, const Chunks& chunks, const std::set<int>& lost) {
  const auto all = first_chunks(pair.shape.k + pair.shape.m);
  Chunks encoded = deep_copy(chunks);
  for (unsigned c = pair.shape.k; c < all.size(); ++c) encoded[static_cast<int>(c)].zero();
  EXPECT_EQ(pair.ours->encode_chunks(all, &encoded), 0);
  EXPECT_EQ(difference(encoded, chunks, all), "") << "encode_chunks";

  Chunks decoded = deep_copy(chunks);
  for (int c : lost) decoded[c].zero();
  EXPECT_EQ(pair.ours->decode_chunks(lost, without(decoded, lost), &decoded), 0);
  EXPECT_EQ(difference(decoded, chunks, all), "") << "decode_chunks";
}

void compare(const PluginPair& pair, Draw& draw, std::size_t length) {
  const unsigned pieces = static_cast<unsigned>(draw.number(1, 21));
  const auto in = draw.bytes(length, pieces);
  const auto all = first_chunks(pair.shape.k + pair.shape.m);
  const auto lost = draw.subset(all, static_cast<unsigned>(draw.number(1, pair.shape.m)));
  SCOPED_TRACE(fmt::format("{} {} bytes in {} pieces, {} chunks lost", describe(pair.shape), length, pieces,
                           lost.size()));
  const Chunks chunks = expect_same_encoding(pair, in);
  if (testing::Test::HasFailure()) return;
  expect_decodes(pair, chunks, lost);
  expect_same_concat(pair, chunks, lost, in);
  expect_same_concat(pair, chunks, {}, in);
  if (length < 1 << 20) expect_same_in_place(pair, chunks, lost);
}

// An ISA-L that this program exposed would take the place of the one in the stock plugin, and our plugin
// would be compared with itself.
TEST(IsaIdentity, EachPluginRunsItsOwnIsaL) { EXPECT_EQ(dlsym(RTLD_DEFAULT, "ec_encode_data"), nullptr); }

TEST(IsaIdentity, EveryShape) {
  Draw draw(base_seed());
  for (const Shape& shape : compared_shapes())
    for (std::size_t length : {std::size_t{shape.k} * 4096, draw.length(shape.k * 5000)}) {
      compare(plugin_pair(shape), draw, length);
      if (HasFailure()) return;
    }
}

TEST(IsaIdentity, EveryLengthAroundChunkAndAlignment) {
  Draw draw(base_seed());
  for (const Shape& shape : {Shape{"reed_sol_van", 4, 2}, {"cauchy", 7, 3}, {"reed_sol_van", 2, 1}})
    for (std::size_t length = 1; length <= 32 * shape.k * 2 + shape.k + 1; ++length) {
      compare(plugin_pair(shape), draw, length);
      if (HasFailure()) return;
    }
}

/// As they come over the network: each chunk in buffers of its own, cut anywhere.
TEST(IsaIdentity, SurvivorsInPieces) {
  Draw draw(base_seed());
  for (const Shape& shape : {Shape{"reed_sol_van", 4, 2}, {"cauchy", 7, 3}, {"reed_sol_van", 8, 3}})
    for (const unsigned chunk_bytes : {64u, 4096u, 70'016u})
      for (unsigned round = 0; round < 5; ++round) {
        const PluginPair& pair = plugin_pair(shape);
        const auto in = draw.bytes(std::size_t{shape.k} * chunk_bytes, 1);
        Chunks chunks = expect_same_encoding(pair, in);
        for (auto& [c, list] : chunks)
          list = draw.in_pieces(flat(list), static_cast<unsigned>(draw.number(1, 9)));
        const auto lost =
            draw.subset(first_chunks(shape.k + shape.m), static_cast<unsigned>(draw.number(1, shape.m)));
        SCOPED_TRACE(
            fmt::format("{} chunks of {} bytes, {} lost", describe(shape), chunk_bytes, lost.size()));
        expect_decodes(pair, chunks, lost);
        expect_same_concat(pair, chunks, lost, in);
        if (HasFailure()) return;
      }
}

TEST(IsaIdentity, RandomDraws) {
  const auto& shapes = compared_shapes();
  constexpr std::uint64_t draws = 30'000;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t seed = base_seed() + i;
    SCOPED_TRACE(fmt::format("draw {} (EC_TEST_SEED={} makes it the first)", i, seed));
    Draw draw(seed);
    const Shape& shape = shapes[draw.number(0, shapes.size() - 1)];
    compare(plugin_pair(shape), draw, draw.length(i % 20 == 0 ? 4 << 20 : 256 << 10));
    if (HasFailure()) return;
  }
}

TEST(IsaIdentity, HugeInputs) {
  Draw draw(base_seed());
  const auto& shapes = compared_shapes();
  for (std::size_t length : {std::size_t{16} << 20, (std::size_t{64} << 20) + 1, std::size_t{70'000'000},
                             static_cast<std::size_t>(draw.number(8'000'000, 70'000'000))}) {
    compare(plugin_pair(shapes[draw.number(0, shapes.size() - 1)]), draw, length);
    if (HasFailure()) return;
  }
}

TEST(IsaIdentity, SameChunkSizeForEveryWidth) {
  Draw draw(base_seed());
  for (const Shape& shape : compared_shapes()) {
    const PluginPair& pair = plugin_pair(shape);
    const auto same = [&](unsigned width) {
      ASSERT_EQ(pair.ours->get_chunk_size(width), pair.stock->get_chunk_size(width))
          << describe(shape) << " " << width;
    };
    for (unsigned width = 1; width <= 32 * 33 * 4; ++width) same(width);
    for (unsigned i = 0; i < 2000; ++i) same(static_cast<unsigned>(draw.length(std::uint64_t{1} << 31)));
  }
}

TEST(IsaIdentity, SameChunkCountsAndMapping) {
  for (const Shape& shape : compared_shapes()) {
    const PluginPair& pair = plugin_pair(shape);
    SCOPED_TRACE(describe(shape));
    EXPECT_EQ(pair.ours->get_chunk_count(), pair.stock->get_chunk_count());
    EXPECT_EQ(pair.ours->get_data_chunk_count(), pair.stock->get_data_chunk_count());
    EXPECT_EQ(pair.ours->get_coding_chunk_count(), pair.stock->get_coding_chunk_count());
    EXPECT_EQ(pair.ours->get_sub_chunk_count(), pair.stock->get_sub_chunk_count());
    EXPECT_EQ(pair.ours->get_chunk_mapping(), pair.stock->get_chunk_mapping());
  }
}

/// Whether `read` is a subset of `available` from which `want` can be had, as small as it can be.
bool suffices(const Shape& shape, const std::set<int>& read, const std::set<int>& want,
              const std::set<int>& available) {
  if (!std::ranges::includes(available, read)) return false;
  return std::ranges::includes(available, want) ? read == want : read.size() == shape.k;
}

void expect_same_reads(const PluginPair& pair, Draw& draw) {
  const auto all = first_chunks(pair.shape.k + pair.shape.m);
  const auto want = draw.subset(all, static_cast<unsigned>(draw.number(1, all.size())));
  const auto available = draw.subset(all, static_cast<unsigned>(draw.number(0, all.size())));
  SCOPED_TRACE(fmt::format("{} want {} available {}", describe(pair.shape), fmt::join(want, ","),
                           fmt::join(available, ",")));
  std::map<int, std::vector<std::pair<int, int>>> ours, stock;
  const int answer = pair.stock->minimum_to_decode(want, available, &stock);
  EXPECT_EQ(pair.ours->minimum_to_decode(want, available, &ours), answer);
  if (answer != 0) return;
  std::set<int> read;
  for (const auto& [chunk, sub_chunks] : ours) {
    read.insert(chunk);
    EXPECT_EQ(sub_chunks, stock.begin()->second);
  }
  EXPECT_TRUE(suffices(pair.shape, read, want, available)) << fmt::format("{}", fmt::join(read, ","));
  EXPECT_EQ(ours.size(), stock.size());
}

int total(const std::map<int, int>& costs, const std::set<int>& chunks) {
  int sum = 0;
  for (int c : chunks) sum += costs.at(c);
  return sum;
}

void expect_no_dearer_reads(const PluginPair& pair, Draw& draw) {
  const auto all = first_chunks(pair.shape.k + pair.shape.m);
  const auto want = draw.subset(all, static_cast<unsigned>(draw.number(1, all.size())));
  std::map<int, int> costs;
  for (int c : draw.subset(all, static_cast<unsigned>(draw.number(0, all.size()))))
    costs[c] = static_cast<int>(draw.number(0, 9));
  SCOPED_TRACE(
      fmt::format("{} want {} costs {} chunks", describe(pair.shape), fmt::join(want, ","), costs.size()));
  std::set<int> ours, stock;
  const int answer = pair.stock->minimum_to_decode_with_cost(want, costs, &stock);
  ASSERT_EQ(pair.ours->minimum_to_decode_with_cost(want, costs, &ours), answer);
  if (answer == 0) {
    EXPECT_LE(total(costs, ours), total(costs, stock));
  }
}

// Which k chunks are read when a wanted one is lost is up to the plugin; that it is k, and the errors, are
// not.
TEST(IsaIdentity, SameAnswersToWhatToRead) {
  Draw draw(base_seed());
  for (const Shape& shape : compared_shapes())
    for (unsigned i = 0; i < 40; ++i) {
      expect_same_reads(plugin_pair(shape), draw);
      expect_no_dearer_reads(plugin_pair(shape), draw);
      if (HasFailure()) return;
    }
}

TEST(IsaIdentity, EncodeHandsOutWhatIsWanted) {
  Draw draw(base_seed());
  for (const Shape& shape : compared_shapes()) {
    const PluginPair& pair = plugin_pair(shape);
    const auto all = first_chunks(shape.k + shape.m);
    const auto want = draw.subset(all, static_cast<unsigned>(draw.number(0, all.size())));
    const auto in = draw.bytes(draw.length(20'000), 4);
    const Chunks ours = encode(*pair.ours, want, in);
    const Chunks stock = encode(*pair.stock, want, in);
    ASSERT_EQ(ours.size(), want.size()) << describe(shape);
    ASSERT_EQ(difference(ours, stock, want), "") << describe(shape);
  }
}

// The stock plugin divides by zero here, so only ours is asked.
TEST(IsaIdentity, NothingEncodesToEmptyChunks) {
  for (const Shape& shape : compared_shapes()) {
    const auto all = first_chunks(shape.k + shape.m);
    const Chunks ours = encode(*plugin_pair(shape).ours, all, {});
    ASSERT_EQ(ours.size(), all.size()) << describe(shape);
    for (const auto& [c, bytes] : ours) ASSERT_EQ(bytes.length(), 0u) << describe(shape) << " chunk " << c;
  }
}

}  // namespace
}  // namespace ec::test
