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
  const Duration fast{170e-6}, slow{680e-6};
  for (int i = 0; i < 600; ++i) run(clock, slow);
  EXPECT_NEAR(clock.expected(bytes) / slow, 1, 0.1);
  for (int i = 0; i < 5; ++i) run(clock, fast);
  EXPECT_LT(clock.expected(bytes) / fast, 1.2);
}

TEST(LinkClock, ACrowdOfSomeCallsIsNotTakenForTheLink) {
  LinkClock clock;
  const Duration alone{182e-6}, crowded{1400e-6};
  for (int i = 0; i < 20; ++i) run(clock, alone);
  for (int i = 0; i < 16; ++i) run(clock, crowded);
  EXPECT_LT(clock.expected(bytes) / alone, 1.15);
}

TEST(LinkClock, SmallJobsTeachNothing) {
  LinkClock clock;
  const Duration before = clock.expected(bytes);
  clock.observed(4096, Duration(1), false);
  EXPECT_EQ(clock.expected(bytes), before);
}

}  // namespace
}  // namespace ec::test
