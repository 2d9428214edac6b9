// GF(2^8): the axioms over every element, pair and triple, and the product against its definition.
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

TEST(Field, ProductIsAssociativeAndDistributesOverEveryTriple) {
  std::uint64_t wrong = 0;
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) {
      const auto ab = mul(byte(a), byte(b));
      for (unsigned c = 0; c < 256; ++c) {
        wrong += mul(ab, byte(c)) != mul(byte(a), mul(byte(b), byte(c)));
        wrong += mul(byte(a), byte(b ^ c)) != (ab ^ mul(byte(a), byte(c)));
      }
    }
  EXPECT_EQ(wrong, 0u);
}

TEST(Field, EveryNonzeroElementHasItsInverse) {
  for (unsigned a = 1; a < 256; ++a) {
    ASSERT_EQ(mul(byte(a), inv(byte(a))), 1) << a;
    ASSERT_EQ(inv(byte(a)), oracle::inverse(byte(a))) << a;
    ASSERT_EQ(inv(byte(a)), gf_inv(byte(a))) << a;
  }
  EXPECT_EQ(inv(0), 0);
}

TEST(Field, TwoGeneratesEveryNonzeroElement) {
  unsigned order = 1;
  for (std::uint8_t x = 2; x != 1; x = mul(x, 2)) ++order;
  EXPECT_EQ(order, 255u);
}

}  // namespace
}  // namespace ec::test
