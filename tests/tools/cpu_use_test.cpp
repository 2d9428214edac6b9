// What /proc/stat says, and who took it.
#include "tools/ectool/cpu_use.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace ec::test {
namespace {

using tools::CpuTime;

TEST(CpuUse, CountsEverythingButIdleAndWaitingForDisks) {
  const auto time = tools::cpu_time("cpu  100 20 30 4000 500 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n", 100);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->busy_s, 1.71);
  EXPECT_DOUBLE_EQ(time->all_s, 46.71);
}

TEST(CpuUse, RefusesOtherTexts) {
  for (const char* text :
       {"", "cpu", "cpu  1 2 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 x 4 5 6 7 8\n"})
    EXPECT_FALSE(tools::cpu_time(text, 100)) << text;
}

TEST(CpuUse, TakesOffWhatOneUsedOneself) {
  const CpuTime before{.busy_s = 10, .all_s = 100}, after{.busy_s = 13, .all_s = 108};
  EXPECT_DOUBLE_EQ(tools::share_of_others(before, after, 1), 0.25);
  EXPECT_DOUBLE_EQ(tools::share_of_others(before, after, 3.2), 0);  // ticks are rounded
  EXPECT_DOUBLE_EQ(tools::share_of_others(before, before, 0), 0);
}

TEST(CpuUse, OfThisMachine) {
  const tools::OtherPrograms others;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double share = others.share();
  EXPECT_GE(share, 0);
  EXPECT_LE(share, 1);
}

}  // namespace
}  // namespace ec::test
