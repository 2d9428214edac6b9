// Rates that were put into samples come out of them again.
#include "tools/ectool/cost_fit.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace ec::test {
namespace {

using codec::Rates;
using codec::Work;
using tools::Sample;

const Work works[] = {{4, 2, 100'000}, {8, 3, 50'000, 2}, {32, 8, 12'500}};

std::vector<Sample> samples_of(const Rates& r) {
  std::vector<Sample> samples;
  for (const Work& w : works)
    samples.push_back({w, r.call_us + r.stripe_us * static_cast<double>(w.stripes) +
                              r.read_us_per_mb * w.read_mb() + r.written_us_per_mb * w.written_mb() +
                              r.product_us_per_mb * w.product_mb()});
  return samples;
}

void expect_near(const Rates& found, const Rates& expected) {
  EXPECT_NEAR(found.call_us, expected.call_us, 1e-6);
  EXPECT_NEAR(found.stripe_us, expected.stripe_us, 1e-6);
  EXPECT_NEAR(found.read_us_per_mb, expected.read_us_per_mb, 1e-6);
  EXPECT_NEAR(found.written_us_per_mb, expected.written_us_per_mb, 1e-6);
  EXPECT_NEAR(found.product_us_per_mb, expected.product_us_per_mb, 1e-6);
}

TEST(FitMemory, FindsTheRatesOfExactSamples) {
  for (const Rates& r : {Rates{3, 2, 40, 40, 5}, Rates{0, 0, 40, 40, 1}, Rates{0, 1, 3, 3, 5}})
    expect_near(tools::fit_memory({.call_us = r.call_us, .stripe_us = r.stripe_us}, samples_of(r)), r);
}

TEST(FitMemory, WhatCannotBeToldFromNothingIsAHundredthOfTheTime) {
  const Rates moves = tools::fit_memory({}, samples_of({0, 0, 40, 40, 0}));
  EXPECT_NEAR(moves.product_us_per_mb, 0.01 * 40 * (32 + 8) / (32 * 8), 1e-6);
  EXPECT_NEAR(moves.read_us_per_mb, 40, 1);
  const Rates computes = tools::fit_memory({}, samples_of({0, 0, 0, 0, 5}));
  EXPECT_NEAR(computes.read_us_per_mb, 0.01 * 5 * (4 * 2) / (4 + 2), 1e-6);
  EXPECT_NEAR(computes.product_us_per_mb, 5, 0.1);
}

TEST(FitMemory, NoisySamplesGiveNoRateThatPrintsAsZero) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> slower(1, 30);
  for (int i = 0; i < 10'000; ++i) {
    auto samples = samples_of({0, 0, 5, 5, 3});
    for (Sample& each : samples) each.us *= slower(random);
    const Rates found = tools::fit_memory({}, samples);
    EXPECT_GE(found.read_us_per_mb, 0.0005) << seed;
    EXPECT_GE(found.product_us_per_mb, 0.0005) << seed;
  }
}

TEST(FitMemory, RefusesCallsThatTakeNoLongerWithMoreBytes) {
  EXPECT_THROW(tools::fit_memory({.call_us = 1e6}, samples_of({1, 0, 2, 2, 3})), std::runtime_error);
  EXPECT_THROW(tools::fit_link({.call_us = 10}, {{8, 1, 1000}, 9}, {{1, 4, 1000}, 12}), std::runtime_error);
}

TEST(FitLink, TakesEachWayFromTheCallThatFillsIt) {
  const Rates found =
      tools::fit_link({.call_us = 10}, {{8, 1, 1'000'000}, 10 + 8 * 20}, {{1, 4, 1'000'000}, 10 + 4 * 25});
  expect_near(found, {10, 0, 20, 25, 0});
}

}  // namespace
}  // namespace ec::test
