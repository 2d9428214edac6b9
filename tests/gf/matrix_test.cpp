// Gauss-Jordan elimination in place, against the oracle's product and inverse.
#include "gf/matrix.hpp"

#include <gtest/gtest.h>

#include "tests/common/conformance.hpp"

namespace ec::test {
namespace {

/// [B | A]
oracle::Rows beside(oracle::Rows b, const oracle::Rows& a) {
  for (std::size_t r = 0; r < a.size(); ++r) b[r].insert(b[r].end(), a[r].begin(), a[r].end());
  return b;
}

void check(const oracle::Rows& b, const oracle::Rows& a, unsigned* singular) {
  const auto inverse = oracle::invert(a);
  auto solved = to_matrix(beside(b, a));
  ASSERT_EQ(gf::solve_last_columns(solved), inverse.has_value());
  if (!inverse)
    ++*singular;
  else
    ASSERT_EQ(to_rows(solved), beside(oracle::multiply(*inverse, b), *inverse));
}

TEST(Matrix, LastColumnsAreSolvedOrSingular) {
  unsigned singular = 0;
  for (unsigned round = 0; round < 400; ++round) {
    const unsigned rows = 1 + round % 9;
    check(random_matrix(rows, round % 7, round + 1000), random_matrix(rows, rows, round), &singular);
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(singular, 0u) << "no singular matrix was among them";
  singular = 0;
  const oracle::Rows b{{7}, {9}};
  check(b, {{0, 1}, {1, 0}}, &singular);
  EXPECT_EQ(singular, 0u) << "that takes an exchange of rows";
  check(b, {{0, 0}, {0, 1}}, &singular);
  check(b, {{3, 5}, {3, 5}}, &singular);
  EXPECT_EQ(singular, 2u);
}

}  // namespace
}  // namespace ec::test
