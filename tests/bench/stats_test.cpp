#include "bench/common/stats.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ec::bench {
namespace {

TEST(BenchStats, MedianAndNoise) {
  const std::vector<double> odd{5, 1, 3};
  EXPECT_DOUBLE_EQ(median(odd), 3);
  EXPECT_DOUBLE_EQ(quantile(odd, 0.25), 2);
  EXPECT_DOUBLE_EQ(noise_percent(odd), 100.0 / 3);  // half of 4 - 2, of 3
  EXPECT_DOUBLE_EQ(median(std::vector<double>{1, 2}), 1.5);
  EXPECT_DOUBLE_EQ(quantile(odd, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(odd, 1), 5);
}

TEST(BenchStats, OneValueHasNoNoise) {
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7}), 7);
  EXPECT_DOUBLE_EQ(noise_percent(std::vector<double>{7}), 0);
}

}  // namespace
}  // namespace ec::bench
