// Predictions by hand-made tables, where every figure can be worked out, and the shape of the built-in ones.
#include "plugin/codec/routing/cost_model.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ec::test {
namespace {

using codec::CostTable;
using codec::cpu_us;
using codec::device_us;
using codec::Work;
using kernels::Residence;

constexpr std::uint64_t mb = 1'000'000;

CostTable plain_table() {
  CostTable t;
  t.cpu = {{{1, 2, 10, 20, 3}, {1000, 0, 0, 0, 0}, {1e6, 0, 0, 0, 0}, {1e9, 0, 0, 0, 0}, {1e9, 0, 0, 0, 0}}};
  t.pinned = {7, 0, 5, 11, 0};
  return t;
}

TEST(CostModel, TheCpuPaysForCallStripesBytesAndProducts) {
  // 2 sources, 3 targets of 0.04 MB: 0.08 MB read, 0.12 written, 0.24 of products.
  EXPECT_DOUBLE_EQ(cpu_us(plain_table(), {2, 3, mb / 25}), 1 + 2 + 0.08 * 10 + 0.12 * 20 + 0.24 * 3);
  EXPECT_DOUBLE_EQ(cpu_us(plain_table(), {2, 3, mb / 50, 2}), 1 + 2 * 2 + 0.08 * 10 + 0.12 * 20 + 0.24 * 3);
  // Targets are read too; 0.05 + 0.075 MB.
  EXPECT_DOUBLE_EQ(cpu_us(plain_table(), {2, 3, mb / 40, 1, true}),
                   1 + 2 + 0.125 * 10 + 0.075 * 20 + 0.15 * 3);
  EXPECT_DOUBLE_EQ(cpu_us(plain_table(), {0, 0, 0}), 1 + 2);
}

TEST(CostModel, TheCpuClassIsThatOfAllBytesMoved) {
  constexpr auto bound = codec::class_bounds;
  EXPECT_LT(cpu_us(plain_table(), {3, 1, bound[0] / 4}), 1000);
  EXPECT_EQ(cpu_us(plain_table(), {3, 1, bound[0] / 4 + 1}), 1000);
  EXPECT_EQ(cpu_us(plain_table(), {3, 1, bound[0] / 8, 3}), 1000);
  EXPECT_EQ(cpu_us(plain_table(), {3, 1, bound[0] / 4, 1, true}), 1000);
  EXPECT_EQ(cpu_us(plain_table(), {3, 1, bound[1] / 4}), 1000);
  EXPECT_EQ(cpu_us(plain_table(), {3, 1, bound[1] / 4 + 1}), 1e6);
  EXPECT_EQ(cpu_us(plain_table(), {3, 1, bound[2] / 4 + 1}), 1e9);
}

TEST(CostModel, ACallDoesNotBecomeCheaperByGrowingIntoTheNextClass) {
  CostTable t = plain_table();
  for (std::size_t i = 1; i < t.cpu.size(); ++i) t.cpu[i] = {};
  // 3 MB read, 1 MB written, 3 MB of products, at the rates of the first class.
  EXPECT_DOUBLE_EQ(cpu_us(t, {3, 1, mb}), 1 + 2 + 3 * 10 + 1 * 20 + 3 * 3);
}

TEST(CostModel, ALinkCarriesBothWaysAtOnceAndCoresDoNot) {
  CostTable t = plain_table();
  EXPECT_DOUBLE_EQ(*device_us(t, {4, 1, mb}, Residence::pinned), 7 + 4 * 5);
  EXPECT_DOUBLE_EQ(*device_us(t, {1, 4, mb}, Residence::pinned), 7 + 4 * 11);
  EXPECT_FALSE(device_us(t, {4, 1, mb}, Residence::pageable)) << "the table has no costs";
  t.pageable = codec::Rates{50, 0, 1, 2, 0};
  EXPECT_DOUBLE_EQ(*device_us(t, {4, 1, mb}, Residence::pageable), 50 + 4 * 1 + 1 * 2);
}

TEST(CostModel, AJobInHandCostsTheBytesAgainAndPartOfTheStart) {
  for (unsigned jobs : {0u, 1u, 2u, 16u})
    EXPECT_DOUBLE_EQ(*device_us(plain_table(), {4, 1, mb}, Residence::pinned, jobs),
                     7 + 20 + jobs * (20 + 7 / codec::parallel_starts));
}

/// What was measured, see cost_table.cpp.
TEST(DefaultCosts, ComeNearTheMeasurementsTheyAreFrom) {
  const auto near = [](double predicted, double measured_us, double within) {
    EXPECT_NEAR(predicted / measured_us, 1, within) << predicted << " for " << measured_us;
  };
  const auto& t = codec::default_costs();
  const auto pinned = [&](Work work) { return *device_us(t, work, Residence::pinned); };
  const auto cpu = [&](Work work) { return cpu_us(t, work); };
  const struct {
    Work work;
    double cpu_us, pinned_us;
  } on_host[] = {
      {{4, 2, 65536}, 12.2, 19.0},         {{4, 2, 262144}, 53.3, 36.4},
      {{4, 2, 1048576}, 276.5, 110.4},     {{4, 2, 4194304}, 991.3, 373.0},
      {{4, 2, 67108864}, 22495, 5273},     {{8, 1, 65536}, 17.6, 23.9},
      {{8, 1, 262144}, 73.3, 59.1},        {{8, 1, 1048576}, 383.4, 187.3},
      {{8, 3, 65536}, 25.4, 25.9},         {{8, 3, 262144}, 81.7, 60.6},
      {{8, 3, 1048576}, 491.8, 190.1},     {{8, 3, 4194304}, 1736.7, 692.4},
      {{8, 3, 67108864}, 39854, 10228},    {{10, 4, 65536}, 33.4, 29.6},
      {{10, 4, 262144}, 102.7, 73.1},      {{10, 4, 1048576}, 486.0, 232.6},
      {{10, 4, 4194304}, 2767.4, 858.4},   {{10, 4, 67108864}, 49028, 12784},
      {{32, 8, 262144}, 659.9, 211.7},     {{32, 8, 1048576}, 2562.5, 707.3},
      {{32, 8, 4194304}, 10371.8, 2618.8}, {{32, 8, 16777216}, 40723, 10106},
  };
  for (const auto& row : on_host) {
    near(cpu(row.work), row.cpu_us, 0.28);
    near(pinned(row.work), row.pinned_us, 0.21);
    // Who was faster is who is chosen.
    EXPECT_EQ(pinned(row.work) < cpu(row.work), row.pinned_us < row.cpu_us) << row.work.chunk_bytes;
  }
}

TEST(DefaultCosts, GrowWithEveryDimension) {
  const auto& t = codec::default_costs();
  const auto all = [&](const Work& w) {
    return std::array{cpu_us(t, w), *device_us(t, w, Residence::pinned)};
  };
  for (unsigned k : {2u, 4u, 8u, 32u, 128u})
    for (unsigned m : {1u, 3u, 8u, 32u})
      for (std::uint64_t bytes = 1; bytes <= std::uint64_t{1} << 32; bytes *= 2)
        for (std::uint64_t stripes : {1u, 64u}) {
          const auto here = all({k, m, bytes, stripes});
          for (const Work& more : {Work{k + 1, m, bytes, stripes}, Work{k, m + 1, bytes, stripes},
                                   Work{k, m, 2 * bytes, stripes}, Work{k, m, bytes, stripes + 1},
                                   Work{k, m, bytes, stripes, true}}) {
            const auto there = all(more);
            for (std::size_t i = 0; i < here.size(); ++i) EXPECT_LE(here[i], there[i]) << i << " " << bytes;
          }
        }
}

}  // namespace
}  // namespace ec::test
