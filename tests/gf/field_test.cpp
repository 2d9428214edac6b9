// GF(2^8): the product of every pair and every inverse, against their definitions and ISA-L.
#include <gtest/gtest.h>
#include <isa-l/erasure_code.h>

#include "gf/gf256.hpp"
#include "tests/common/oracle.hpp"

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

}  // namespace
}  // namespace ec::test
