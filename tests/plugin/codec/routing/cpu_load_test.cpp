// How busy the cores are said to be, from files made for the purpose.
#include "plugin/codec/routing/cpu_load.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/plugin/codec/small_file.hpp"

namespace ec::test {
namespace {

using codec::CpuLoad;
using codec::runnable_threads;

TEST(RunnableThreads, StandBeforeTheSlash) {
  EXPECT_EQ(runnable_threads("0.31 0.18 0.11 3/412 9871\n"), 3u);
  EXPECT_EQ(runnable_threads("12.00 9.10 0.11 1024/99999 1"), 1024u);
}

TEST(RunnableThreads, AreNothingInAnyOtherText) {
  for (const char* text : {"", " ", "3/412", "0.1 0.1 3/412", "0.1 0.1 0.1 ", "0.1 0.1 0.1 3",
                           "0.1 0.1 0.1 -3/4", "0.1 0.1 0.1 x/4", "0.1 0.1 0.1 99999999999/4"})
    EXPECT_FALSE(runnable_threads(text)) << text;
}

TEST(RunnableThreads, AreReadFromThisMachine) {
  std::ifstream in("/proc/loadavg");
  std::string text;
  if (!std::getline(in, text)) GTEST_SKIP() << "no /proc/loadavg here";
  EXPECT_TRUE(runnable_threads(text)) << text;
}

TEST(CpuLoad, IsRunnableThreadsPerCoreWithinBounds) {
  const auto stretch = [](unsigned cores, const char* text) {
    const SmallFile file(text);
    return CpuLoad(cores, file.path()).stretch();
  };
  EXPECT_EQ(stretch(4, "0 0 0 1/9 1"), 1);
  EXPECT_EQ(stretch(4, "0 0 0 4/9 1"), 1);
  EXPECT_EQ(stretch(4, "0 0 0 6/9 1"), 1.5);
  EXPECT_EQ(stretch(1, "0 0 0 5/9 1"), 5);
  EXPECT_EQ(stretch(0, "0 0 0 5/9 1"), 5);
  EXPECT_EQ(stretch(4, "0 0 0 4000/9 1"), CpuLoad::most);
  EXPECT_EQ(stretch(4, "nonsense"), 1);
  EXPECT_EQ(CpuLoad(4, "/nonexistent").stretch(), 1);
}

TEST(CpuLoad, FollowsByAQuarterAReadingAndForgets) {
  const SmallFile file("0 0 0 4/9 1");
  CpuLoad load(1, file.path());
  EXPECT_EQ(load.stretch(), 4);
  file.write("0 0 0 8/9 1");
  std::this_thread::sleep_for(CpuLoad::interval + CpuLoad::memory + std::chrono::milliseconds(10));
  EXPECT_EQ(load.stretch(), 8);
  file.write("0 0 0 0/9 1");
  std::this_thread::sleep_for(CpuLoad::interval);
  const double next = load.stretch();
  EXPECT_TRUE(next == 6 || next == 1) << next << ": 1 only if this machine stood still for a while";
  std::filesystem::remove(file.path());
  std::this_thread::sleep_for(CpuLoad::interval);
  EXPECT_EQ(load.stretch(), 1);
}

}  // namespace
}  // namespace ec::test
