// What the wait for a device learns.
#include "kernels/cuda/device/link_clock.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace ec::test {
namespace {

using kernels::cuda::LinkClock;
using Duration = LinkClock::Duration;

constexpr std::size_t bytes = 8 << 20;

Duration expected(LinkClock& clock, std::size_t of = bytes) {
  return LinkClock::InFlight(clock, of).expected();
}

/// A job that takes `took`, as the runner sees it.
void run(LinkClock& clock, Duration took, std::size_t of = bytes) {
  LinkClock::InFlight in_flight(clock, of);
  const Duration first_look = in_flight.expected() * 0.9;
  in_flight.took(std::max(took, first_look), took <= first_look);
}

TEST(LinkClock, LearnsASlowLinkAndForgetsIt) {
  LinkClock clock;
  const Duration fast{170e-6}, slow{680e-6};
  for (int i = 0; i < 600; ++i) run(clock, slow);
  EXPECT_NEAR(expected(clock) / slow, 1, 0.1);
  for (int i = 0; i < 5; ++i) run(clock, fast);
  EXPECT_LT(expected(clock) / fast, 1.2);
}

TEST(LinkClock, AFewSlowCallsAreNotTakenForTheLink) {
  LinkClock clock;
  const Duration alone{182e-6}, crowded{1400e-6};
  for (int i = 0; i < 20; ++i) run(clock, alone);
  for (int i = 0; i < 16; ++i) run(clock, crowded);
  EXPECT_LT(expected(clock) / alone, 1.15);
}

TEST(LinkClock, JobsInFlightShareTheLink) {
  LinkClock clock;
  const Duration start_up = expected(clock, 0);
  const Duration alone = expected(clock) - start_up;
  const LinkClock::InFlight one(clock, bytes), two(clock, bytes), three(clock, bytes);
  EXPECT_EQ(clock.jobs(), 3u);
  EXPECT_NEAR((expected(clock) - start_up) / alone, 4, 1e-9) << "equal jobs";
  EXPECT_NEAR((expected(clock, bytes / 8) - start_up) / alone, 0.5, 1e-9) << "a small one is let through";
  EXPECT_NEAR((expected(clock, 10 * bytes) - start_up) / alone, 13, 1e-9) << "a large one outlasts them";
}

TEST(LinkClock, JobsInACrowdAndSmallOnesTeachNothing) {
  LinkClock clock;
  const Duration before = expected(clock);
  {
    LinkClock::InFlight first(clock, bytes);
    run(clock, Duration(1e-6));
    std::optional<LinkClock::InFlight> late(std::in_place, clock, bytes);
    first.took(Duration(1), false);
  }
  run(clock, Duration(1), 4096);
  EXPECT_EQ(clock.jobs(), 0u);
  EXPECT_EQ(expected(clock), before);
}

}  // namespace
}  // namespace ec::test
