// Rates that were put into samples come out of them again.
#include "tools/ectool/cost_fit.hpp"

#include <gtest/gtest.h>

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
  for (const Rates& r : {Rates{3, 2, 40, 40, 5}, Rates{0, 0, 40, 40, 0}, Rates{0, 1, 0, 0, 5}})
    expect_near(tools::fit_memory({.call_us = r.call_us, .stripe_us = r.stripe_us}, samples_of(r)), r);
}

TEST(FitMemory, FindsNoNegativeRates) {
  // Wider codes cost less a byte than arithmetic allows, or much more than it explains.
  for (const double wide : {0.3, 30.0}) {
    auto samples = samples_of({0, 0, 40, 40, 0});
    samples[2].us *= wide;
    const Rates found = tools::fit_memory({}, samples);
    EXPECT_GE(found.read_us_per_mb, 0);
    EXPECT_GE(found.product_us_per_mb, 0);
    EXPECT_GT(found.read_us_per_mb + found.product_us_per_mb, 0);
  }
  // Nothing remains beyond the start.
  expect_near(tools::fit_memory({.call_us = 1e6}, samples_of({1, 0, 2, 2, 3})), {1e6, 0, 0, 0, 0});
}

TEST(FitLink, TakesEachWayFromTheCallThatFillsIt) {
  const Rates found =
      tools::fit_link({.call_us = 10}, {{8, 1, 1'000'000}, 10 + 8 * 20}, {{1, 4, 1'000'000}, 10 + 4 * 25});
  expect_near(found, {10, 0, 20, 25, 0});
}

}  // namespace
}  // namespace ec::test
