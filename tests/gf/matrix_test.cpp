// Matrix product and inverse against the oracle's.
#include "gf/matrix.hpp"

#include <gtest/gtest.h>

#include "tests/common/conformance.hpp"

namespace ec::test {
namespace {

TEST(Matrix, ProductEqualsTheOracles) {
  for (unsigned round = 0; round < 50; ++round) {
    const auto a = random_matrix(1 + round % 7, 1 + round % 11, round);
    const auto b = random_matrix(1 + round % 11, 1 + round % 5, round + 1000);
    ASSERT_EQ(to_rows(gf::multiply(to_matrix(a), to_matrix(b))), oracle::multiply(a, b));
  }
}

TEST(Matrix, InverseEqualsTheOraclesAndSingularIsNothing) {
  unsigned singular = 0;
  for (unsigned round = 0; round < 400; ++round) {
    const auto a = random_matrix(1 + round % 9, 1 + round % 9, round);
    const auto expected = oracle::invert(a);
    const auto found = gf::invert(to_matrix(a));
    ASSERT_EQ(found.has_value(), expected.has_value()) << round;
    if (found) {
      ASSERT_EQ(to_rows(*found), *expected);
    }
    singular += !found;
  }
  EXPECT_GT(singular, 0u) << "no singular matrix was among them";
}

TEST(Matrix, InverseNeedsARowSwap) {
  const auto swap = to_matrix({{0, 1}, {1, 0}});
  EXPECT_EQ(gf::invert(swap), swap);
  EXPECT_FALSE(gf::invert(to_matrix({{0, 0}, {0, 1}})));
  EXPECT_FALSE(gf::invert(to_matrix({{3, 5}, {3, 5}})));
}

}  // namespace
}  // namespace ec::test
