// Other systems' matrices, by their own constructions. tests/python/peers_test.py has the systems themselves.
#include "gf/dialects.hpp"

#include <gtest/gtest.h>

#include "gf/generator.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/oracle.hpp"

namespace ec::test {
namespace {

/// The Vandermonde matrix of n points, made systematic by the inverse of its first k rows.
oracle::Rows systematic(const oracle::Bytes& points, unsigned k) {
  oracle::Rows all;
  for (const auto x : points) {
    auto& row = all.emplace_back();
    for (unsigned c = 0; c < k; ++c) row.push_back(oracle::power(x, c));
  }
  const auto top = oracle::invert({all.begin(), all.begin() + k});
  return oracle::multiply({all.begin() + k, all.end()}, *top);
}

TEST(Dialects, EqualTheirOwnConstructions) {
  for (const auto& [k, m] :
       {std::pair(1u, 1u), {1, 4}, {2, 1}, {3, 2}, {8, 3}, {10, 4}, {17, 9}, {100, 20}}) {
    oracle::Bytes counted, powers{0};
    for (unsigned i = 0; i < k + m; ++i) {
      counted.push_back(static_cast<std::uint8_t>(i));
      powers.push_back(oracle::power(2, i));
    }
    powers.pop_back();
    EXPECT_EQ(to_rows(*gf::dialect_matrix("klauspost", k, m)), systematic(counted, k)) << k << "+" << m;
    EXPECT_EQ(to_rows(*gf::dialect_matrix("zfec", k, m)), systematic(powers, k)) << k << "+" << m;
    const auto cauchy = gf::dialect_matrix("isal_cauchy", k, m);
    for (unsigned r = 0; r < m; ++r)
      for (unsigned c = 0; c < k; ++c)
        ASSERT_EQ((*cauchy)(r, c), oracle::inverse(static_cast<std::uint8_t>((k + r) ^ c)));
    EXPECT_EQ(gf::dialect_matrix("klauspost_cauchy", k, m), cauchy);
  }
}

TEST(Dialects, AreThoseOfTheTechniquesWhereTheyShareThem) {
  using gf::Technique;
  EXPECT_EQ(gf::dialect_matrix("isal_reed_sol_van", 8, 3), gf::coding_matrix(Technique::reed_sol_van, 8, 3));
  EXPECT_EQ(gf::dialect_matrix("jerasure_reed_sol_van", 8, 3),
            gf::coding_matrix(Technique::jerasure_reed_sol_van, 8, 3));
  EXPECT_EQ(gf::dialect_matrix("jerasure_reed_sol_r6_op", 8, 2),
            gf::coding_matrix(Technique::jerasure_reed_sol_r6_op, 8, 2));
  EXPECT_FALSE(gf::dialect_matrix("jerasure_reed_sol_r6_op", 8, 3));
  for (const auto* wrong : {"", "Zfec", "cauchy", "klauspost "})
    EXPECT_FALSE(gf::dialect_matrix(wrong, 4, 2));
}

}  // namespace
}  // namespace ec::test
