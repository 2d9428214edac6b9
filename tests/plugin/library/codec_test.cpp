// The C++ interface: what it codes, against the oracle.
#include "ec/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <string>

#include "tests/common/threads.hpp"
#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

struct Shape {
  Technique technique;
  unsigned k, m;
};
// One coding chunk is the XOR with either, as Ceph's isa plugin has it, and unlike ISA-L's Cauchy matrix.
constexpr Shape shapes[] = {{Technique::reed_sol_van, 2, 1}, {Technique::reed_sol_van, 8, 3},
                            {Technique::cauchy, 3, 1},       {Technique::cauchy, 10, 4},
                            {Technique::cauchy, 6, 6},       {Technique::cauchy, 200, 55}};
constexpr std::size_t lengths[] = {1, 63, 1000, 4096};

std::vector<unsigned> random_loss(unsigned chunks, unsigned count, Random& random) {
  auto all = numbers(0, chunks);
  shuffle(all, random);
  all.resize(count);
  return all;
}

class EveryShape : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, EveryShape, testing::ValuesIn(shapes), [](const auto& test) {
  return std::string(technique_name(test.param.technique)) + "_" + std::to_string(test.param.k) + "_" +
         std::to_string(test.param.m);
});

TEST_P(EveryShape, EncodesDecodesInAnyOrderAndUpdates) {
  const auto [technique, k, m] = GetParam();
  const auto codec = made(k, m, technique);
  EXPECT_TRUE(codec.k() == k && codec.m() == m && codec.technique() == technique);
  Random random(7);
  for (unsigned round = 0; round < 20; ++round) {
    const auto lost = random_loss(k + m, 1 + random.below(m), random);
    auto available = without(numbers(0, k + m), lost);
    // As few as can be, and from the last to the first.
    while (available.size() > k) available.erase(available.begin() + random.below(k));
    std::ranges::reverse(available);
    const StripeSet stripes(technique_name(technique), k, m, 1 + round % 3, lengths[round % 4], round);
    ASSERT_NO_FATAL_FAILURE(expect_codes(codec, stripes, available, lost)) << "round " << round;
  }
}

/// More of them than a codec keeps, each met twice, by threads that meet the same ones.
TEST(Decode, TellsApartAllListsThatOneCodecMeets) {
  const auto codec = made(3, 3, Technique::cauchy);
  in_threads(3, [&](unsigned t) {
    StripeSet stripes("cauchy", 3, 3, 1, 40, t);
    for (unsigned turn = 0; turn < 2; ++turn) {
      auto order = numbers(0, 6);
      do {
        // 3 to 5 of them are available, and the rest wanted.
        for (unsigned count = 3; count < 6; ++count) {
          const std::vector available(order.begin(), order.begin() + count),
              lost(order.begin() + count, order.end());
          ASSERT_TRUE(succeeds(decode_anew(codec, stripes, available, lost)));
          ASSERT_EQ(stripes.chunks, stripes.intact) << "turn " << turn;
        }
      } while (std::ranges::next_permutation(order).found);
    }
  });
}

TEST(Sources, MayBeTheSameMemory) {
  const std::vector<std::uint8_t> zeros(64, 0), ones(64, 1);
  std::vector<std::uint8_t> parity(64, 9);
  const std::vector<Source> data{ones, zeros, zeros, zeros};
  const std::vector<Target> coding{parity};
  ASSERT_FALSE(made(4, 1).encode(data, coding));
  EXPECT_EQ(parity, ones);
}

TEST(Nothing, ToDoIsNoError) {
  const auto codec = made(2, 1);
  EXPECT_FALSE(codec.encode({}, {}));
  const std::vector<Source> data(2);
  const std::vector<Target> coding(1);
  EXPECT_FALSE(codec.encode(data, coding));
  const std::vector<unsigned> available{0, 2};
  EXPECT_FALSE(codec.decode(available, data, {}, {}));
  EXPECT_FALSE(codec.update(1, {}, {}));
}

TEST(Chunks, AreMadeFromRangesOfBytes) {
  std::array<char, 3> text{'a', 'b', 'c'};
  const std::string constant = "xyz";
  EXPECT_EQ(Source(text).bytes.size(), 3u);
  EXPECT_EQ(Source(constant, Residence::pinned).residence, Residence::pinned);
  Target target(text.data(), text.size(), Residence::device);
  EXPECT_EQ(Source(target).residence, Residence::device);
  EXPECT_EQ(static_cast<const void*>(Source(target).bytes.data()), text.data());
  static_assert(!std::constructible_from<Target, const std::string&>);
  static_assert(!std::constructible_from<Source, std::string&&>, "a view of a temporary");
  static_assert(!std::constructible_from<Source, std::vector<int>&>);
}

TEST(Codec, IsNeverEmpty) {
  auto codec = made(3, 2);
  const Codec taken = std::move(codec);
  EXPECT_EQ(codec.k() + taken.m(), 5u);  // NOLINT: that it can be used is the point
}

TEST(Result, HoldsAValueOrThrowsItsError) {
  EXPECT_EQ(Codec::create(3, 2).value().k(), 3u);
  try {
    static_cast<void>(Codec::create(1, 2).value());
    FAIL();
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("k=1 must be at least 2"), std::string::npos) << e.what();
  }
  const auto unknown = Codec::create(4, 2, static_cast<Technique>(7));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Errc::invalid_argument);
  EXPECT_EQ(unknown.error().text(), "technique=7; allowed are 0 (reed_sol_van), 1 (cauchy)");
}

TEST(Errors, AreErrorCodes) {
  const std::error_code code = Errc::too_few_chunks;
  EXPECT_EQ(code.category(), error_category());
  EXPECT_STREQ(code.category().name(), "ec");
  EXPECT_EQ(code.message(), "fewer than k chunks are available");
  EXPECT_EQ(std::error_code(Errc::out_of_memory), std::errc::not_enough_memory);
  EXPECT_EQ(std::error_code(Errc::device_hung), std::errc::timed_out);
  EXPECT_EQ(std::error_code(Errc::no_device), std::errc::no_such_device);
}

TEST(Errors, EachHasATextOfItsOwn) {
  std::set<std::string> texts;
  for (const Errc code : {Errc::invalid_argument, Errc::too_few_chunks, Errc::no_device, Errc::busy,
                          Errc::device_fault, Errc::device_hung, Errc::out_of_memory, Errc::chunks_disagree})
    EXPECT_TRUE(texts.insert(error_category().message(static_cast<int>(code))).second) << *texts.rbegin();
  EXPECT_FALSE(texts.contains(error_category().message(-1)));
}

TEST(Version, IsThatOfTheProject) {
  EXPECT_STREQ(version(), ECCODER_VERSION);
  EXPECT_STREQ(ec_version(), ECCODER_VERSION);
}

/// Mixed shapes and losses, every result checked. Half of the codecs are made anew, so that set-up races with
/// use, as in a daemon that opens placement groups under load.
TEST(Threads, ShareCodecs) {
  std::vector<Codec> shared;
  for (const Shape& shape : shapes)
    if (shape.k <= 10) shared.push_back(made(shape.k, shape.m, shape.technique));
  std::atomic<unsigned> wrong{0};
  in_threads(8, [&](unsigned t) {
    Random random(t);
    for (unsigned round = 0; round < 200; ++round) {
      const Codec& one = shared[random.below(static_cast<unsigned>(shared.size()))];
      const unsigned k = one.k(), m = one.m();
      // Copies come and go while others work.
      const Codec codec = random.below(2) == 0 ? one : made(k, m, one.technique());
      const auto lost = random_loss(k + m, 1 + random.below(m), random);
      const auto available = without(numbers(0, k + m), lost);
      StripeSet stripes(technique_name(one.technique()), k, m, 1 + random.below(3), 1 + random.below(600),
                        random.next());
      const bool is_done = !encode_anew(codec, stripes) && !decode_anew(one, stripes, available, lost);
      wrong += !is_done || stripes.chunks != stripes.intact;
    }
  });
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ec::test
