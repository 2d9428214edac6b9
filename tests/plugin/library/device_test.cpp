// Chunks in pinned and device memory through the C++ interface. Where there is no GPU the tests are skipped;
// the test `library.emulated_device` runs them on the emulated one.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

#include <cstdio>
#include <cstdlib>

#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Residences, EveryResidence, testing::ValuesIn(residences()),
                         [](const auto& test) { return std::string(name(test.param)); });

/// Three stripes in that memory, coded by `call`, which gets them as Placed.
template <class Call>
void expect_coded(const StripeSet& stripes, Arena& arena, Call&& call) {
  const Placed placed(stripes, arena);
  ASSERT_TRUE(succeeds(call(placed)));
  EXPECT_EQ(placed.content(), stripes.intact);
}

/// On the default stream, or without a stream.
void encode_and_decode(Arena& arena, bool on_stream) {
  const auto codec = made(4, 2, Technique::cauchy);
  StripeSet stripes("cauchy", 4, 2, 3, 5000, 21);
  stripes.scramble({4, 5});
  expect_coded(stripes, arena, [&](const Placed& placed) {
    const auto data = placed.sources({0, 1, 2, 3});
    const auto coding = placed.targets({4, 5});
    return on_stream ? codec.encode_async(data, coding, nullptr) : codec.encode(data, coding);
  });
  stripes.chunks = stripes.intact;
  stripes.scramble({0, 5});
  expect_coded(stripes, arena, [&](const Placed& placed) {
    const std::vector<unsigned> available{1, 2, 3, 4}, lost{0, 5};
    const auto sources = placed.sources(available);
    const auto targets = placed.targets(lost);
    return on_stream ? codec.decode_async(available, sources, lost, targets, nullptr)
                     : codec.decode(available, sources, lost, targets);
  });
}

TEST_P(EveryResidence, EncodesDecodesAndUpdatesBatches) {
  encode_and_decode(*arena_, false);
  StripeSet stripes("cauchy", 4, 2, 3, 5000, 22);
  stripes.expect_cleared(1);
  expect_coded(stripes, *arena_, [](const Placed& placed) {
    return made(4, 2, Technique::cauchy).update(1, placed.sources({1}), placed.targets({4, 5}));
  });
}

TEST_P(EveryResidence, StripesOfABatchMayLieElsewhere) {
  StripeSet stripes("cauchy", 4, 2, 1, 5000, 24);
  stripes.scramble({4, 5});
  const auto pageable = pageable_arena();
  for (const unsigned here : {0u, 1u}) {
    const Placed placed[] = {{stripes, here == 0 ? *arena_ : *pageable},
                             {stripes, here == 0 ? *pageable : *arena_}};
    std::vector<Source> data;
    std::vector<Target> coding;
    for (const Placed& stripe : placed) {
      std::ranges::copy(stripe.sources({0, 1, 2, 3}), std::back_inserter(data));
      std::ranges::copy(stripe.targets({4, 5}), std::back_inserter(coding));
    }
    ASSERT_TRUE(succeeds(made(4, 2, Technique::cauchy).encode(data, coding)));
    for (const Placed& stripe : placed) EXPECT_EQ(stripe.content(), stripes.intact);
  }
}

TEST_F(OnAStream, EncodesAndDecodesBatches) { encode_and_decode(*arena_, true); }

/// More losses than the codec keeps anything for, or its cache of plans holds, cost no more memory.
TEST_F(OnAStream, DecodesAnyNumberOfLossesInBoundedMemory) {
  const auto codec = made(12, 6, Technique::cauchy);
  StripeSet stripes("cauchy", 12, 6, 1, 64, 23);
  unsigned done = 0;
  // Every loss of six: 18564 of them.
  std::vector<bool> is_lost(18, false);
  std::fill_n(is_lost.begin(), 6, true);
  const auto decode_until = [&](unsigned count) {
    for (; done < count; ++done, std::prev_permutation(is_lost.begin(), is_lost.end())) {
      std::vector<unsigned> available, lost;
      for (unsigned c = 0; c < 18; ++c) (is_lost[c] ? lost : available).push_back(c);
      stripes.chunks = stripes.intact;
      stripes.scramble(lost);
      const Placed placed(stripes, *arena_);
      ASSERT_TRUE(succeeds(
          codec.decode_async(available, placed.sources(available), lost, placed.targets(lost), nullptr)));
      ASSERT_EQ(placed.content(), stripes.intact) << done;
    }
  };
  decode_until(4000);
  const auto before = mallinfo2().uordblks;
  decode_until(8000);
  EXPECT_LT(mallinfo2().uordblks, before + (1 << 20));
}

TEST_F(OnAStream, VerifyRefusesWhatItCanNotAnswer) {
  const auto codec = made(4, 2, Technique::cauchy);
  const StripeSet stripes("cauchy", 4, 2, 2, 64, 5);
  const Placed placed(stripes, *arena_);
  const GuardedChunk answer(*arena_, oracle::Bytes(16), 0);
  auto* const word = reinterpret_cast<std::uint64_t*>(answer.data());
  const auto text = [&](const std::vector<unsigned>& available, std::uint64_t* to, bool none = false) {
    const auto sources = none ? std::vector<Source>() : placed.sources(available);
    return std::string(codec.verify_async(available, sources, to, nullptr).text());
  };
  const auto all = numbers(0, 6);
  EXPECT_EQ(text(all, word), "");
  EXPECT_EQ(text(all, nullptr), "difference is null");
  EXPECT_TRUE(text(all, reinterpret_cast<std::uint64_t*>(answer.data() + 4)).ends_with(" to 8 bytes"));
  const std::string nothing = ", and none follows from the others: there is nothing to compare";
  EXPECT_EQ(text({0, 1, 2, 3}, word), "available has 4 chunks" + nothing);
  EXPECT_EQ(text(all, word, true), "there is no byte to compare");
}

/// Coding chunks of rows of zeros follow from no chunk: a launch without sources.
TEST_F(OnAStream, VerifiesChunksThatTheMatrixMakesZero) {
  const auto codec = Codec::create(2, 2, std::vector<std::uint8_t>(4), MatrixKind::any).value();
  for (const auto residence : {Residence::pinned, Residence::device}) {
    Arena& arena = *arena_of(static_cast<kernels::Residence>(residence));
    const GuardedChunk first(arena, oracle::Bytes(4096), 0), second(arena, oracle::Bytes(4096), 0);
    const GuardedChunk answer(*arena_, oracle::Bytes(8), 0);
    const std::vector<Source> coding{{first.data(), 4096, residence}, {second.data(), 4096, residence}};
    auto* const to = reinterpret_cast<std::uint64_t*>(answer.data());
    ASSERT_TRUE(succeeds(codec.verify_async(std::vector{2u, 3u}, coding, to, nullptr)));
    EXPECT_TRUE(answer.holds(oracle::Bytes(8, 0xff))) << "no_difference";
  }
}

TEST(PageableChunks, AreRefusedOnAStream) {
  const auto codec = made(2, 1);
  std::byte memory[3][64]{};
  const std::vector<Source> data{{memory[0], 64, Residence::pinned}, {memory[1], 64}};
  const std::vector<Target> coding{{memory[2], 64, Residence::pinned}};
  const auto error = codec.encode_async(data, coding, nullptr);
  EXPECT_EQ(error.code(), Errc::invalid_argument);
  EXPECT_EQ(error.text(), "data[1] is pageable; work on a stream takes pinned and device memory");
}

/// Ends the process: 0 if device memory is refused for want of device 63, with the text on stderr.
[[noreturn]] void encode_without_device() {
  setenv("EC_CUDA_DEVICES", "63", 1);
  std::byte memory[3][64]{};
  const std::vector<Source> data{{memory[0], 64, Residence::device}, {memory[1], 64}};
  const std::vector<Target> coding{{memory[2], 64}};
  const auto error = made(2, 1).encode(data, coding);
  std::fprintf(stderr, "%s\n", error.text().c_str());
  std::exit(error.code() == Errc::no_device ? 0 : 1);
}

/// In a process of its own: one without a device must be one whatever ran before.
TEST(NoDeviceDeathTest, IsSaidWithTheReason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(encode_without_device(), testing::ExitedWithCode(0),
              "chunks are in device memory, and no device is up: .");
}

}  // namespace
}  // namespace ec::test
