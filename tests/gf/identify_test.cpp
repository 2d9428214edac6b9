// Random sets of shards, of which the test knows where they come from: nothing that is said of them is wrong.
#include "gf/identify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "gf/generator.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using oracle::Bytes;
using oracle::Rows;

struct Set {
  std::string dialect;  ///< empty: a random matrix
  unsigned k = 0, m = 0;
  Rows generator;
  std::vector<unsigned> order;  ///< the chunk of each shard
  std::vector<Bytes> clean, shards;
  int damaged = -1;
  bool is_damaged_everywhere = false;
  bool has_headers = false;
};

Rows generator_of(const std::string& dialect, unsigned k, unsigned m, std::mt19937& random) {
  if (!dialect.empty()) return oracle::generator(to_rows(*gf::dialect_matrix(dialect, k, m)));
  return oracle::generator(Random(random()).chunks(m, k));
}

gf::Identity identified(const std::vector<Bytes>& shards) {
  std::vector<const std::uint8_t*> places;
  for (const auto& shard : shards) places.push_back(shard.data());
  return gf::identify(places, shards.front().size());
}

Set random_set(std::mt19937& random) {
  const auto draw = [&](unsigned from, unsigned to) {
    return from + static_cast<unsigned>(random() % (to - from + 1));
  };
  const std::vector<std::string> dialects{"isal_reed_sol_van",
                                          "isal_cauchy",
                                          "jerasure_reed_sol_van",
                                          "jerasure_reed_sol_r6_op",
                                          "zfec",
                                          "klauspost",
                                          ""};
  Set set;
  set.dialect = dialects[draw(0, 6)];
  set.k = draw(2, 10);
  set.m = set.dialect == "jerasure_reed_sol_r6_op" ? 2 : draw(1, set.dialect == "isal_reed_sol_van" ? 3 : 5);
  set.generator = generator_of(set.dialect, set.k, set.m, random);
  const auto data = Random(random()).chunks(set.k, draw(200, 3000));
  set.order.resize(set.k + set.m);
  std::iota(set.order.begin(), set.order.end(), 0u);
  if (draw(0, 3) != 0) std::shuffle(set.order.begin(), set.order.end(), random);
  for (unsigned missing = draw(0, 1) * draw(0, set.m); missing > 0; --missing)
    set.order.erase(set.order.begin() + draw(0, static_cast<unsigned>(set.order.size()) - 1));
  const auto all = oracle::apply(set.generator, data);
  for (const auto chunk : set.order) set.clean.push_back(all[chunk]);
  set.shards = set.clean;
  if (draw(0, 9) == 0) {
    set.has_headers = true;
    for (auto& shard : set.shards)
      std::generate_n(shard.begin(), 4, [&] { return static_cast<std::uint8_t>(random()); });
  }
  if (set.has_headers || draw(0, 1) == 0) return set;
  set.damaged = static_cast<int>(draw(0, static_cast<unsigned>(set.order.size()) - 1));
  auto& shard = set.shards[static_cast<unsigned>(set.damaged)];
  const auto length = static_cast<unsigned>(shard.size());
  switch (draw(0, 3)) {
    case 0:
      shard[draw(0, 1) * draw(0, length - 1)] ^= static_cast<std::uint8_t>(draw(1, 255));
      break;
    case 1:
      std::fill_n(shard.begin() + draw(0, length / 2), draw(1, length / 3), std::uint8_t{0});
      break;
    case 2:
      for (auto& byte : shard)
        if (draw(0, 19) == 0) byte = static_cast<std::uint8_t>(random());
      break;
    default:
      for (auto& byte : shard) byte = static_cast<std::uint8_t>(random());
      set.is_damaged_everywhere = true;
  }
  return set;
}

/// Whether the code of that name makes those shards, which are whole, in that order.
bool reproduces(const gf::Fit& fit, unsigned k, const std::vector<Bytes>& shards, std::mt19937& random) {
  const auto generator = generator_of(std::string(fit.dialect), k, fit.m, random);
  std::vector<unsigned> numbers;
  std::vector<Bytes> there;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (fit.order[i] < 0) continue;
    numbers.push_back(static_cast<unsigned>(fit.order[i]));
    there.push_back(shards[i]);
  }
  const std::vector<unsigned> sources(numbers.begin(), numbers.begin() + k),
      targets(numbers.begin() + k, numbers.end());
  const auto matrix = oracle::recovery_matrix(generator, sources, targets);
  return matrix && oracle::apply(*matrix, {there.begin(), there.begin() + k}) ==
                       std::vector<Bytes>(there.begin() + k, there.end());
}

/// Whether each check holds for the shards as they were before the damage.
void expect_checks_hold(const gf::Identity& found, const Set& set) {
  for (const auto& sum : oracle::apply(to_rows(found.checks), set.clean))
    EXPECT_EQ(std::ranges::count(sum, 0), static_cast<std::ptrdiff_t>(sum.size()));
}

struct Told {
  unsigned k = 0, damage = 0, dialect = 0, order = 0;
};

void expect_truth(const Set& set, std::mt19937& random, Told* told) {
  const auto found = identified(set.shards);
  const auto n = static_cast<unsigned>(set.shards.size());
  expect_checks_hold(found, set);
  const bool is_changed = set.damaged >= 0 && set.shards != set.clean;
  const unsigned spare = n > set.k ? n - set.k : 0;
  if (spare == 0) {
    EXPECT_EQ(found.k, 0u);
    EXPECT_FALSE(found.untold.empty());
    return;
  }
  const bool is_mds_for_sure = !set.dialect.empty();
  // A shard that is damaged everywhere takes one check with it.
  if (is_mds_for_sure && (!set.is_damaged_everywhere || spare > 1)) {
    ASSERT_EQ(found.k, set.k);
    const auto is_it = [&](const gf::Fit& fit) { return fit.dialect == set.dialect; };
    EXPECT_TRUE(std::ranges::any_of(found.fits, is_it));
  }
  if (found.k != 0) {
    ++told->k;
    if (found.outside.empty()) {
      EXPECT_EQ(found.k, set.k);
    }
  } else {
    EXPECT_FALSE(found.untold.empty());
    EXPECT_TRUE(found.checks.rows() != 0 || found.obeying == found.columns);
  }
  for (const auto shard : found.outside) {
    EXPECT_TRUE(!is_mds_for_sure || static_cast<int>(shard) == set.damaged) << shard;
    EXPECT_TRUE(!is_mds_for_sure || set.is_damaged_everywhere);
  }
  for (const auto shard : found.damaged) {
    EXPECT_EQ(static_cast<int>(shard), set.damaged);
  }
  if (is_mds_for_sure && is_changed && !set.is_damaged_everywhere) {
    EXPECT_LT(found.obeying, found.columns);
    const auto& damaged = static_cast<unsigned>(set.damaged);
    const auto first =
        std::ranges::mismatch(set.shards[damaged], set.clean[damaged]).in1 - set.shards[damaged].begin();
    EXPECT_EQ(found.first_bad, static_cast<std::size_t>(first));
    EXPECT_EQ(found.damaged.size(), spare > 1 ? 1u : 0u);
    told->damage += spare > 1;
  }
  if (set.has_headers && is_mds_for_sure && spare > 0) {
    EXPECT_EQ(found.obeying + 4, found.columns);
    EXPECT_TRUE(found.damaged.empty());
  } else if (!is_changed && !set.has_headers) {
    EXPECT_EQ(found.obeying, found.columns);
  }
  for (const auto& fit : found.fits) {
    EXPECT_TRUE(reproduces(fit, found.k, set.clean, random));
    if (fit.dialect != set.dialect || !fit.is_sole || fit.m != set.m) continue;
    ++told->order;
    for (unsigned i = 0; i < n; ++i)
      if (fit.order[i] >= 0) {
        EXPECT_EQ(fit.order[i], static_cast<int>(set.order[i])) << fit.dialect;
      }
  }
  if (found.fits.size() == 1) {
    ++told->dialect;
    if (is_mds_for_sure) {
      EXPECT_EQ(found.fits[0].dialect, set.dialect);
    }
  } else {
    EXPECT_FALSE(found.untold.empty());
  }
}

TEST(Identify, SaysNothingWrongOfRandomSets) {
  Told told;
#ifdef __SANITIZE_ADDRESS__
  constexpr unsigned sets = 200;  // a thousand take minutes, and ten on a busy host
#else
  constexpr unsigned sets = 1000;
#endif
  for (unsigned i = 0; i < sets && !::testing::Test::HasFailure(); ++i) {
    std::mt19937 random(i);
    const Set set = random_set(random);
    SCOPED_TRACE("seed " + std::to_string(i) + ": " + set.dialect + " " + std::to_string(set.k) + "+" +
                 std::to_string(set.m) + ", shards " + std::to_string(set.shards.size()) + ", damaged " +
                 std::to_string(set.damaged));
    expect_truth(set, random, &told);
  }
  EXPECT_GT(told.k, sets / 2);
  EXPECT_GT(told.dialect, sets / 4);
  EXPECT_GT(told.damage, sets / 10);
  EXPECT_GT(told.order, sets / 10);
}

TEST(Identify, NamesADamagedShardOfFewBytes) {
  unsigned named = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto shards = oracle::apply(generator_of("isal_cauchy", 8, 3, random), Random(seed).chunks(8, 60));
    for (unsigned i = 0; i < 9; ++i) shards[4][random() % 60] ^= 0x5a;
    named += identified(shards).damaged == std::vector{4u};
  }
  EXPECT_GE(named, 48u);
}

TEST(Identify, TriesTheOrderGivenOfManyShards) {
  std::mt19937 random(1);
  auto shards = oracle::apply(generator_of("isal_cauchy", 60, 10, random), Random(1).chunks(60, 200));
  shards.erase(shards.begin(), shards.begin() + 3);
  std::vector<int> order(67);
  std::iota(order.begin(), order.end(), 3);
  const auto found = identified(shards);
  ASSERT_EQ(found.fits.size(), 1u);
  EXPECT_EQ(found.fits[0].dialect, "isal_cauchy");
  EXPECT_EQ(found.fits[0].m, 10u);
  EXPECT_EQ(found.fits[0].order, order);
  std::swap(shards[0], shards[1]);  // Another order is not tried.
  EXPECT_EQ(identified(shards).untold,
            std::vector<std::string>{
                "the dialect: no order that was tried fits, and there are too many to try all"});
}

}  // namespace
}  // namespace ec::test
