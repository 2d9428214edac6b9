// What the wait for a device learns.
#include "kernels/cuda/link_clock.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ec::test {
namespace {

using kernels::cuda::LinkClock;
using Duration = LinkClock::Duration;

constexpr std::size_t bytes = 8 << 20;

/// A job that takes `took`, as stream_wait.cpp sees it.
void run(LinkClock& clock, Duration took) {
  const Duration first_look = clock.expected(bytes) * 0.9;
  clock.observed(bytes, std::max(took, first_look), took <= first_look);
}

TEST(LinkClock, LearnsASlowLinkAndForgetsIt) {
  LinkClock clock;
  const Duration alone{170e-6}, crowded{1400e-6};
  for (int i = 0; i < 40; ++i) run(clock, crowded);
  EXPECT_NEAR(clock.expected(bytes) / crowded, 1, 0.1);
  for (int i = 0; i < 4; ++i) run(clock, alone);
  EXPECT_LT(clock.expected(bytes) / alone, 1.2) << "a crowd is forgotten within four calls";
  for (int i = 0; i < 40; ++i) run(clock, alone);
  EXPECT_NEAR(clock.expected(bytes) / alone, 1, 0.15);
}

TEST(LinkClock, SmallJobsTeachNothing) {
  LinkClock clock;
  const Duration before = clock.expected(bytes);
  clock.observed(4096, Duration(1), false);
  EXPECT_EQ(clock.expected(bytes), before);
}

}  // namespace
}  // namespace ec::test
