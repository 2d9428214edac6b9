// What is known of matrices, and decode plans by any of them, against the oracle. Every loss of codes of up
// to 16 chunks, and losses of wide ones, are in tests/kernels/patterns_test.cpp.
#include "gf/mds.hpp"

#include <gtest/gtest.h>

#include <string>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using gf::ChunkSet;
using gf::Matrix;

/// Cells below `bound`: the smaller, the more singular minors.
Matrix random_matrix(unsigned k, unsigned m, unsigned bound, Random& random) {
  Matrix matrix(m, k);
  for (unsigned r = 0; r < m; ++r)
    for (auto& cell : matrix.row(r)) cell = static_cast<std::uint8_t>(random.below(bound));
  return matrix;
}

TEST(Mds, OfSmallMatricesIsThatOfTheMinors) {
  Random random(1);
  unsigned good = 0;
  for (unsigned round = 0; round < 4000; ++round) {
    const unsigned k = 1 + random.below(5), m = 1 + random.below(4);
    const auto coding = random_matrix(k, m, round % 2 == 0 ? 256 : 6, random);
    const auto mds = gf::check_mds(coding);
    ASSERT_TRUE(mds.proven);
    ASSERT_EQ(!mds.unsolvable, oracle::every_minor_invertible(to_rows(coding))) << "round " << round;
    good += !mds.unsolvable;
    if (!mds.unsolvable) continue;
    // What it names is a loss of m chunks that leaves no k independent ones.
    ASSERT_EQ(mds.unsolvable->count(), m);
    oracle::Rows left;
    const auto all = oracle::generator(to_rows(coding));
    for (unsigned c = 0; c < k + m; ++c)
      if (!mds.unsolvable->contains(c)) left.push_back(all[c]);
    ASSERT_FALSE(oracle::invert(left)) << "round " << round;
  }
  EXPECT_GT(good, 500u);
  EXPECT_LT(good, 3500u);
}

/// By their structure in any shape, whatever their rows and columns are multiplied by; not so with one wrong
/// cell.
TEST(Mds, OfReedSolomonCodesIsKnownInAnyShape) {
  Random random(2);
  for (const std::string dialect : {"isal_cauchy", "jerasure_reed_sol_van", "zfec", "klauspost"})
    for (const auto& [k, m] :
         {std::pair(1u, 1u), {2, 2}, {2, 9}, {9, 2}, {10, 4}, {60, 40}, {200, 55}, {20, 235}}) {
      auto coding = *gf::dialect_matrix(dialect, k, m);
      const auto known = gf::check_mds(coding);
      EXPECT_TRUE(known.proven && !known.unsolvable) << dialect << " " << k << "+" << m;
      if (k < 3 || m < 3) continue;
      coding(m - 1, k - 1) ^= 1;
      const auto spoilt = gf::check_mds(coding);
      EXPECT_TRUE(spoilt.unsolvable || spoilt.proven == (k + m < 30)) << dialect << " " << k << "+" << m;
    }
}

TEST(Mds, OfVandermondeMatricesIsAsIsaLSays) {
  for (const auto& [k, m, mds] : {std::tuple(8u, 3u, true), {21, 4, true}, {22, 4, false}, {5, 6, false}}) {
    const auto known = gf::check_mds(gf::coding_matrix(gf::Technique::reed_sol_van, k, m));
    EXPECT_TRUE(known.proven);
    EXPECT_EQ(!known.unsolvable, mds) << k << "+" << m;
  }
  const auto wide = gf::check_mds(gf::coding_matrix(gf::Technique::reed_sol_van, 252, 3));
  EXPECT_FALSE(wide.proven || wide.unsolvable);
  EXPECT_TRUE(gf::check_mds(gf::coding_matrix(gf::Technique::reed_sol_van, 40, 8)).unsolvable);
}

/// Of these rows of a generator, by elimination.
unsigned rank_of(const oracle::Rows& generator, const ChunkSet& chunks) {
  oracle::Rows rows;
  for (const unsigned c : chunks) rows.push_back(generator[c]);
  unsigned rank = 0;
  for (std::size_t column = 0; column < generator.front().size(); ++column) {
    const auto pivot =
        std::find_if(rows.begin() + rank, rows.end(), [&](const auto& r) { return r[column] != 0; });
    if (pivot == rows.end()) continue;
    std::iter_swap(rows.begin() + rank, pivot);
    const auto& by = rows[rank];
    for (std::size_t r = ++rank; r < rows.size(); ++r) {
      const auto factor = oracle::mul(rows[r][column], oracle::inverse(by[column]));
      for (std::size_t c = 0; c < by.size(); ++c) rows[r][c] ^= oracle::mul(factor, by[c]);
    }
  }
  return rank;
}

/// Any wish from any chunks: a plan where the rank does not grow by the wish, and then the right one.
TEST(Plan, SolvesWhatCanBeSolved) {
  Random random(3);
  unsigned solved = 0, unsolved = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    const unsigned k = 1 + random.below(5), m = 1 + random.below(4);
    const auto coding = random_matrix(k, m, round % 2 == 0 ? 256 : 3, random);
    ChunkSet available, wanted;
    for (unsigned c = 0; c < k + m; ++c) {
      if (random.below(3) != 0) available.insert(c);
      if (random.below(4) == 0) wanted.insert(c);
    }
    const auto generator = oracle::generator(to_rows(coding));
    const auto rank = [&](const ChunkSet& set) { return rank_of(generator, set); };
    const ChunkSet independent = gf::independent_chunks(coding, available);
    ASSERT_EQ(independent.count(), rank(available));
    ASSERT_EQ(rank(independent), rank(available));
    ASSERT_TRUE(available.includes(independent));
    ASSERT_EQ(gf::independent_chunks(coding, ChunkSet::first(k + m)), ChunkSet::first(k)) << "the first ones";
    ChunkSet reachable;
    for (const unsigned c : wanted) {
      ChunkSet with = available;
      with.insert(c);
      if (rank(with) == rank(available)) reachable.insert(c);
    }
    ASSERT_EQ(gf::solvable_chunks(coding, {available, wanted}), reachable);
    const auto plan = gf::make_decode_plan(coding, {available, wanted});
    ASSERT_EQ(plan.has_value(), reachable == wanted) << "round " << round;
    (plan ? solved : unsolved) += !wanted.empty();
    if (!plan) continue;
    ASSERT_EQ(ChunkSet::of(plan->targets), wanted - available);
    ASSERT_TRUE(std::ranges::is_sorted(plan->targets));
    ASSERT_TRUE(std::ranges::is_sorted(plan->sources));
    if (oracle::every_minor_invertible(to_rows(coding))) {
      const auto sources = ChunkSet::of(plan->sources);
      ASSERT_EQ(sources.count(), plan->targets.empty() ? 0 : k);
      ASSERT_TRUE(plan->targets.empty() || sources.includes(available & ChunkSet::first(k)))
          << "surviving data must be read";
    }
    const auto chunks = oracle::apply(generator, random.chunks(k, 7));
    std::vector<oracle::Bytes> read;
    for (const auto c : plan->sources) {
      ASSERT_TRUE(available.contains(c));
      read.push_back(chunks[c]);
    }
    if (read.empty()) {
      // Of no chunks only those can be made that are zero whatever the data are.
      for (const auto c : plan->targets) ASSERT_EQ(chunks[c], oracle::Bytes(7));
      continue;
    }
    const auto rows = to_rows(plan->matrix);
    for (std::size_t s = 0; s < read.size() && read.size() > 1; ++s)
      ASSERT_TRUE(std::ranges::any_of(rows, [&](const auto& row) { return row[s] != 0; })) << "read in vain";
    const auto made = oracle::apply(rows, read);
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_EQ(made[i], chunks[plan->targets[i]]) << "round " << round;
  }
  EXPECT_GT(solved, 300u);
  EXPECT_GT(unsolved, 300u);
}

/// The first coding row of reed_sol_van is all ones. A plan that used another would multiply for nothing; the
/// back ends look for a row of ones, among other targets too.
TEST(Plan, LostDataIsTheXorOfTheOthersAndTheFirstCodingChunk) {
  for (const auto [k, m] : {CodeShape{4, 2}, {8, 3}, {21, 4}}) {
    const auto coding = gf::coding_matrix(gf::Technique::reed_sol_van, k, m);
    for (unsigned lost = 0; lost < k; ++lost)
      for (const ChunkSet& wanted : {ChunkSet{lost}, ChunkSet{lost, k + m - 1}}) {
        const auto plan = gf::make_decode_plan(coding, {ChunkSet::first(k + m) - wanted, wanted});
        ASSERT_TRUE(plan);
        EXPECT_EQ(to_rows(plan->matrix).front(), oracle::Bytes(k, 1)) << k << "+" << m << ", " << lost;
      }
  }
}

}  // namespace
}  // namespace ec::test
