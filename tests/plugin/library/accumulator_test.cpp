// Chunks as they come: any order gives what the oracle gives.
#include <gtest/gtest.h>

#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

/// Of a code: encode, or a loss with or without chunks left over, whose chunks come in any order; on the
/// default stream, or without a stream.
void check_one(std::uint64_t seed, Arena& arena, bool on_stream = false) {
  Random random(seed);
  const bool wide = random.below(20) == 0, is_long = !wide && random.below(8) == 0;
  const unsigned m = 1 + random.below(wide ? 20 : 5), k = 2 + random.below(wide ? 254 - m : 12);
  StripeSet stripes("cauchy", k, m, 1 + random.below(3), is_long ? 70'001 : random.below(1500), seed);
  auto all = stripes.data_numbers(), wanted = stripes.coding_numbers();
  if (random.below(3) != 0) {
    all = numbers(0, k + m);
    shuffle(all, random);
    wanted.assign(all.end() - 1 - random.below(m), all.end());
    all.resize(all.size() - wanted.size());
  }
  shuffle(wanted, random);
  stripes.scramble(wanted);
  const Placed placed(stripes, arena);
  const auto accumulator = made(k, m, Technique::cauchy).begin(all, wanted, placed.targets(wanted)).value();
  shuffle(all, random);
  for (const unsigned chunk : all) {
    const auto sources = placed.sources({chunk});
    ASSERT_TRUE(succeeds(on_stream ? accumulator.add_async(chunk, sources, nullptr)
                                   : accumulator.add(chunk, sources)));
  }
  ASSERT_TRUE(succeeds(accumulator.end()));
  ASSERT_EQ(placed.content(), stripes.intact) << "seed " << seed << " " << k << "+" << m;
}

TEST(Accumulator, GivesInAnyOrderWhatTheOracleGives) {
  Arena& arena = *arena_of(kernels::Residence::pageable);
  for (std::uint64_t seed = 1; seed <= 300 && !HasFatalFailure(); ++seed) check_one(seed, arena);
}

TEST_P(EveryResidence, AccumulatorTakesChunksInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFatalFailure(); ++seed) check_one(seed, *arena_);
}

TEST_F(OnAStream, ChunksComeInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFatalFailure(); ++seed) check_one(seed, *arena_, true);
}

TEST(BadAccumulator, IsRefusedByName) {
  const auto codec = made(4, 2, Technique::cauchy);
  StripeSet stripes("cauchy", 4, 2, 1, 64, 5);
  const std::vector<unsigned> available{0, 1, 2, 4, 5}, wanted{3};
  const auto targets = stripes.views<Target>(wanted);
  EXPECT_EQ(codec.begin(std::vector{0u, 1u, 2u}, wanted, targets).error().text(),
            "available has 3 chunks; k=4 are needed");
  EXPECT_EQ(codec.begin(std::vector{0u, 1u, 2u, 4u}, std::vector{3u, 5u}, stripes.views<Target>({3, 3}))
                .error()
                .text(),
            "targets[0] overlaps targets[1]; a target must overlap no other chunk of its stripe");
  const auto accumulator = codec.begin(available, wanted, targets).value();
  const auto text = [&](unsigned chunk, const std::vector<Source>& chunks) {
    return std::string(accumulator.add(chunk, chunks).text());
  };
  EXPECT_EQ(text(3, stripes.views<Source>({0})), "chunk=3 is not one of available");
  EXPECT_EQ(text(300, stripes.views<Source>({0})), "chunk=300 is not one of available");
  EXPECT_EQ(text(0, {}), "chunks has 0 chunks; 1 stripes need one each");
  EXPECT_EQ(text(0, {Source(stripes.chunks[0][0].data(), 60)}),
            "chunks[0] has 60 bytes and targets[0] has 64; all chunks of a call must be equally long");
  EXPECT_EQ(text(0, stripes.views<Source>({3})),
            "targets[0] overlaps chunks[0]; a target must overlap no other chunk of its stripe");
  EXPECT_EQ(text(0, stripes.views<Source>({0})), "");
  EXPECT_EQ(text(0, stripes.views<Source>({0})), "chunk=0 was added before");
  EXPECT_EQ(text(2, stripes.views<Source>({2})), "");
  const auto error = accumulator.end();
  EXPECT_EQ(error.code(), Errc::too_few_chunks);
  EXPECT_EQ(error.text(), "chunks 1, 4 were not added");
  EXPECT_EQ(text(4, stripes.views<Source>({4})), "");
  EXPECT_EQ(text(1, stripes.views<Source>({1})), "");
  EXPECT_FALSE(accumulator.end());
  EXPECT_EQ(stripes.chunks, stripes.intact);
}

/// What it makes by C: stack_test.cpp, and of several stripes shortage_test.cpp.
TEST(CAccumulator, RefusesWhatOnlyCCanGetWrong) {
  const auto codec = created(4, 2, EC_CAUCHY);
  StripeSet stripes("cauchy", 4, 2, 1, 100, 5);
  const unsigned available[] = {0, 1, 2, 4}, wanted[] = {3, 5};
  ec_accumulator* accumulator = nullptr;
  const auto begin = [&](const ec_target* targets) {
    return ec_begin(codec.get(), 1, available, 4, wanted, 2, targets, 100, &accumulator);
  };
  EXPECT_EQ(begin(nullptr), -EINVAL);
  EXPECT_STREQ(ec_error_text(), "targets is null");
  ASSERT_EQ(begin(stripes.views<ec_target>({3, 5}).data()), 0);
  EXPECT_EQ(ec_add(accumulator, 0, nullptr), -EINVAL);
  EXPECT_EQ(ec_end(accumulator), -ENODATA);
  EXPECT_EQ(ec_end(nullptr), 0);
  EXPECT_EQ(ec_add(nullptr, 0, nullptr), -EINVAL);
}

}  // namespace
}  // namespace ec::test
