// Whether chunks agree, and which one does not, against a search by the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

/// The first byte at which chunks of these numbers differ from what the first k of them make.
std::optional<std::size_t> first_difference(const oracle::Rows& generator,
                                            const std::vector<oracle::Bytes>& chunks,
                                            const std::vector<unsigned>& numbers) {
  const auto end_of_read = numbers.begin() + static_cast<std::ptrdiff_t>(generator[0].size());
  const std::vector from(numbers.begin(), end_of_read), others(end_of_read, numbers.end());
  std::vector<oracle::Bytes> read;
  for (const unsigned c : from) read.push_back(chunks[c]);
  const auto made = oracle::apply(*oracle::recovery_matrix(generator, from, others), read);
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto& is = chunks[others[i]];
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(made[i], is).in1 - made[i].begin());
    if (at < is.size()) first = std::min(first.value_or(at), at);
  }
  return first;
}

/// By the definition: the chunks without which the others agree, if it is one, and something is left to
/// compare.
std::optional<unsigned> the_wrong_one(const oracle::Rows& generator, const std::vector<oracle::Bytes>& chunks,
                                      const std::vector<unsigned>& numbers) {
  std::vector<unsigned> suspects;
  for (const unsigned c : numbers) {
    auto others = numbers;
    std::erase(others, c);
    if (!first_difference(generator, chunks, others)) suspects.push_back(c);
  }
  return suspects.size() == 1 ? std::optional(suspects[0]) : std::nullopt;
}

/// Draws a case, and compares. The oracle looks at the bytes around those that were changed. arenas: where
/// the chunks lie, each in one of them.
void check_one(std::uint64_t seed, const std::vector<Arena*>& arenas) {
  Random random(seed);
  const bool wide = random.below(300) == 0, is_long = random.below(100) == 0;
  const auto technique = random.below(2) == 0 ? Technique::cauchy : Technique::reed_sol_van;
  const unsigned m =
      1 + random.below(wide && technique == Technique::cauchy ? 20 : 3 + (technique == Technique::cauchy));
  const unsigned k = 2 + random.below(wide ? 250 - m : 12);
  // The long ones have several blocks.
  const std::size_t bytes = 1 + random.below(is_long && !wide ? 600'000 : random.below(4) == 0 ? 3000 : 600);
  const bool aligned = random.below(2) == 0;
  const auto codec = made(k, m, technique);
  const auto generator = oracle::generator(technique_name(technique), k, m);
  StripeSet stripes(technique_name(technique), k, m, 1 + random.below(3), bytes, seed);
  const unsigned stripe = random.below(static_cast<unsigned>(stripes.chunks.size()));
  auto& chunks = stripes.chunks[stripe];

  // So many of them, in any order; so many of these wrong, each in some bytes.
  auto chosen = numbers(0, k + m);
  shuffle(chosen, random);
  chosen.resize(k + 1 + random.below(m));
  const auto left = static_cast<unsigned>(chosen.size()) - k;
  std::set<std::size_t> changed;
  const unsigned bad = random.below(4) == 0 ? 0 : 1 + random.below(random.below(3) == 0 ? m : 1);
  for (unsigned i = 0; i < bad; ++i) {
    auto& chunk = chunks[chosen[random.below(static_cast<unsigned>(chosen.size()))]];
    for (unsigned flips = 1 + random.below(3); flips > 0; --flips) {
      const unsigned kind = random.below(4);
      const std::size_t place = kind == 0   ? 0
                                : kind == 1 ? bytes - 1
                                            : random.below(static_cast<unsigned>(bytes));
      chunk[place] ^= static_cast<std::uint8_t>(1u << random.below(8));
      changed.insert(place);
    }
  }
  // Only those bytes matter.
  const std::vector<std::size_t> places(changed.begin(), changed.end());
  std::vector<oracle::Bytes> there;
  for (const auto& chunk : chunks) {
    auto& some = there.emplace_back();
    for (const auto place : places) some.push_back(chunk[place]);
  }
  auto sorted = chosen;
  std::ranges::sort(sorted);
  const std::size_t none = places.size();
  const std::size_t difference =
      places.empty() ? none : first_difference(generator, there, sorted).value_or(none);
  const auto wrong = difference != none && left > 1 ? the_wrong_one(generator, there, sorted) : std::nullopt;

  std::vector<Source> sources;
  std::vector<GuardedChunk> placed;
  bool streams = true;
  for (const auto& contents : stripes.chunks)
    for (const unsigned c : chosen) {
      Arena& arena = *arenas[random.below(static_cast<unsigned>(arenas.size()))];
      placed.emplace_back(arena, contents[c], aligned ? 0 : random.below(64));
      sources.emplace_back(placed.back().data(), bytes, static_cast<Residence>(arena.residence()));
      streams &= arena.residence() != kernels::Residence::pageable;
    }
  const auto verdict = codec.verify(chosen, sources);
  ASSERT_TRUE(verdict) << verdict.error().text();
  // On the default stream, for which reading back waits.
  if (Arena* const on_device = arena_of(kernels::Residence::device); streams && on_device != nullptr) {
    const GuardedChunk answer(*on_device, oracle::Bytes(8), 0);
    auto* const to = reinterpret_cast<std::uint64_t*>(answer.data());
    ASSERT_TRUE(succeeds(codec.verify_async(chosen, sources, to, nullptr)));
    const auto [content, guards_intact] = answer.inspect();
    std::uint64_t word = 0;
    std::memcpy(&word, content.data(), sizeof word);
    ASSERT_TRUE(guards_intact);
    ASSERT_EQ(word, difference != none ? stripe * bytes + places[difference] : no_difference)
        << "seed " << seed;
  }
  auto next = placed.begin();
  for (const auto& contents : stripes.chunks)
    for (const unsigned c : chosen) ASSERT_TRUE((next++)->holds(contents[c]));
  ASSERT_EQ(verdict->agree, difference == none) << "seed " << seed << " " << k << "+" << m << " x " << bytes;
  if (difference == none) return;
  ASSERT_EQ(verdict->stripe, stripe);
  ASSERT_EQ(verdict->byte, places[difference]) << "seed " << seed;
  ASSERT_EQ(verdict->chunk, wrong) << "seed " << seed << " " << k << "+" << m << " x " << bytes;
  if (left == 1 || bad == 1) {
    ASSERT_EQ(verdict->chunk.has_value(), left > 1) << "seed " << seed;
  }
}

/// EC_CASES and EC_SEED: so many of them, and others.
void check_all(std::uint64_t least, const std::vector<Arena*>& arenas) {
  const char* const cases = std::getenv("EC_CASES");
  const char* const seed = std::getenv("EC_SEED");
  const std::uint64_t first = seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
  const std::uint64_t count = cases == nullptr ? least : std::strtoull(cases, nullptr, 10);
  for (std::uint64_t i = first; i < first + count && !testing::Test::HasFatalFailure(); ++i)
    check_one(i, arenas);
}

TEST(Verify, FindsWhatTheOracleFinds) { check_all(2000, {pageable_arena().get()}); }

TEST_P(EveryResidence, VerifyFindsWhatTheOracleFinds) { check_all(500, {arena_}); }

TEST(VerifyResidences, MayDifferWithinACall) {
  std::vector<Arena*> arenas;
  for (const auto residence : residences()) arenas.push_back(arena_of(residence));
  if (std::ranges::count(arenas, nullptr) != 0) GTEST_SKIP() << "no device memory here";
  check_all(500, arenas);
}

TEST_P(EveryResidence, CheckedDecodeChecksWhatItDecodesFrom) {
  const auto codec = made(4, 3, Technique::cauchy);
  StripeSet stripes("cauchy", 4, 3, 2, 5000, 1);
  stripes.scramble({1});
  const std::vector<unsigned> available{6, 0, 2, 3, 4, 5}, lost{1};
  {
    const Placed placed(stripes, *arena_);
    EXPECT_TRUE(
        succeeds(codec.checked_decode(available, placed.sources(available), lost, placed.targets(lost))));
    EXPECT_EQ(placed.content(), stripes.intact);
  }
  stripes.chunks[1][3][77] ^= 1;
  const Placed placed(stripes, *arena_);
  const auto error = codec.checked_decode(available, placed.sources(available), lost, placed.targets(lost));
  EXPECT_EQ(error.code(), Errc::chunks_disagree);
  EXPECT_EQ(error.text(), "sources disagree, first in stripe 1 at byte 77; chunk 3 alone is wrong");
  EXPECT_EQ(placed.content(), stripes.chunks);
  // Nothing is left over.
  EXPECT_FALSE(codec.checked_decode(std::vector{0u, 2u, 4u, 5u}, placed.sources({0, 2, 4, 5}), lost,
                                    placed.targets(lost)));
}

/// A locally repairable code: a group has one check, so none of its chunks can be named by it.
TEST(Verify, ByAMatrixThatIsNotMdsNamesWhatItCan) {
  const auto codec = Codec::create(4, 3, local_code, MatrixKind::any).value();
  StripeSet stripes(rows_of(local_code, 4), 1, 100, 1);
  auto& chunks = stripes.chunks[0];
  const auto views = [&](const std::vector<unsigned>& which) { return stripes.views<Source>(which); };
  EXPECT_TRUE(codec.verify(std::vector{0u, 1u, 4u}, views({0, 1, 4})).value().agree);
  EXPECT_EQ(codec.verify(std::vector{0u, 1u, 2u}, views({0, 1, 2})).error().code(), Errc::too_few_chunks);
  for (unsigned c = 0; c < 7; ++c) {
    chunks[c][50] ^= 9;
    const auto verdict = codec.verify(numbers(0, 7), views(numbers(0, 7))).value();
    EXPECT_FALSE(verdict.agree);
    EXPECT_EQ(verdict.chunk, c);
    const auto group = codec.verify(std::vector{0u, 1u, 4u}, views({0, 1, 4})).value();
    EXPECT_EQ(group.agree, c != 0 && c != 1 && c != 4);
    EXPECT_FALSE(group.chunk);
    chunks[c][50] ^= 9;
  }
}

TEST(BadVerify, IsRefusedByName) {
  const auto codec = made(4, 2, Technique::cauchy);
  StripeSet stripes("cauchy", 4, 2, 1, 64, 5);
  const auto text = [&](const std::vector<unsigned>& available, const std::vector<unsigned>& given) {
    const auto verdict = codec.verify(available, stripes.views<Source>(given));
    EXPECT_FALSE(verdict);
    return verdict.error().text();
  };
  EXPECT_EQ(text({0, 1, 2}, {0, 1, 2}), "available has 3 chunks; k=4 are needed");
  EXPECT_EQ(text({0, 1, 2, 3}, {0, 1, 2, 3}),
            "available has 4 chunks, and none follows from the others: there is nothing to compare");
  EXPECT_EQ(text({0, 1, 2, 3, 3}, {0, 1, 2, 3, 4}), "available[4]=3 repeats available[3]");
  EXPECT_EQ(text({0, 1, 2, 3, 4}, {0, 1, 2, 3}), "sources has 4 chunks; whole stripes have 5 each");
  const std::vector<unsigned> all = numbers(0, 6);
  EXPECT_TRUE(codec.verify(all, {}).value().agree);
}

TEST(CVerify, IsThatOfTheCxxInterface) {
  const auto codec = created(4, 2, EC_CAUCHY);
  StripeSet stripes("cauchy", 4, 2, 2, 100, 5);
  const auto all = numbers(0, 6);
  const auto verify = [&](std::size_t count, ec_verdict* verdict) {
    return ec_verify(codec.get(), 2, all.data(), count, stripes.views<ec_source>(all).data(), 100, verdict);
  };
  ec_verdict verdict{7, 7, 7, 7};
  EXPECT_EQ(verify(6, &verdict), 0);
  EXPECT_TRUE(verdict.agree == 1 && verdict.chunk == -1 && verdict.stripe == 0 && verdict.byte == 0);
  stripes.chunks[1][5][99] ^= 128;
  EXPECT_EQ(verify(6, &verdict), 0);
  EXPECT_TRUE(verdict.agree == 0 && verdict.chunk == 5 && verdict.stripe == 1 && verdict.byte == 99);
  EXPECT_EQ(verify(4, &verdict), -ENODATA);
  EXPECT_EQ(verify(6, nullptr), -EINVAL);
  EXPECT_STREQ(ec_error_text(), "verdict is null");
  EXPECT_EQ(verify(7, &verdict), -EINVAL);
  const unsigned available[] = {0, 1, 2, 4, 5}, wanted[] = {3};
  const auto decode = [&] {
    return ec_checked_decode(codec.get(), 2, available, 5, stripes.views<ec_source>({0, 1, 2, 4, 5}).data(),
                             wanted, 1, stripes.views<ec_target>({3}).data(), 100);
  };
  EXPECT_EQ(decode(), -EBADMSG);
  EXPECT_STREQ(ec_error_text(),
               "sources disagree, first in stripe 1 at byte 99; which chunk is wrong cannot be told");
  stripes.chunks = stripes.intact;
  stripes.scramble({3});
  EXPECT_EQ(decode(), 0);
  EXPECT_EQ(stripes.chunks, stripes.intact);
}

}  // namespace
}  // namespace ec::test
