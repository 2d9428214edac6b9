// GF(2^8): the product of every pair and every inverse, against their definitions and ISA-L; Gauss-Jordan
// elimination in place, against the oracle's product and inverse.
#include <gtest/gtest.h>
#include <isa-l/erasure_code.h>

#include "gf/gf256.hpp"
#include "gf/matrix.hpp"
#include "tests/common/conformance.hpp"

namespace ec::test {
namespace {

using gf::inv;
using gf::mul;

std::uint8_t byte(unsigned value) { return static_cast<std::uint8_t>(value); }

TEST(Field, ProductOfEveryPairIsTheDefinitionAndIsaLs) {
  for (unsigned a = 0; a < 256; ++a) {
    ASSERT_EQ(mul(byte(a), 1), a);
    ASSERT_EQ(mul(byte(a), 0), 0);
    for (unsigned b = 0; b < 256; ++b) {
      const auto product = mul(byte(a), byte(b));
      ASSERT_EQ(product, oracle::mul_bitwise(byte(a), byte(b))) << a << " . " << b;
      ASSERT_EQ(product, gf_mul(byte(a), byte(b))) << a << " . " << b;
      ASSERT_EQ(product, mul(byte(b), byte(a))) << a << " . " << b;
    }
  }
}

TEST(Field, EveryNonzeroElementHasItsInverse) {
  for (unsigned a = 1; a < 256; ++a) {
    ASSERT_EQ(mul(byte(a), inv(byte(a))), 1) << a;
    ASSERT_EQ(inv(byte(a)), oracle::inverse(byte(a))) << a;
    ASSERT_EQ(inv(byte(a)), gf_inv(byte(a))) << a;
  }
  EXPECT_EQ(inv(0), 0);
}

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
