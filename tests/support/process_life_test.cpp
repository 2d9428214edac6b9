// What lives as long as the process: made once, whoever comes first, and not taken away.
#include "support/process_life.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/common/threads.hpp"

namespace ec::test {
namespace {

TEST(MadeOnce, CallersThatComeAtOnceGetTheSameObject) {
  constexpr unsigned callers = 8;
  for (int round = 0; round < 50; ++round) {
    MadeOnce<int> once;
    std::latch come(callers);
    std::vector<int*> got(callers);
    in_threads(callers, [&](unsigned i) {
      come.arrive_and_wait();
      got[i] = &once.get([&] { return std::make_unique<int>(static_cast<int>(i)); });
    });
    EXPECT_EQ(std::set(got.begin(), got.end()).size(), 1u);
    const std::unique_ptr<int> kept(got[0]);
  }
}

TEST(MadeOnce, IsMadeAnewAfterAnException) {
  MadeOnce<int> once;
  EXPECT_THROW(once.get([]() -> std::unique_ptr<int> { throw std::runtime_error("no"); }),
               std::runtime_error);
  const std::unique_ptr<int> kept(&once.get([] { return std::make_unique<int>(7); }));
  EXPECT_EQ(*kept, 7);
}

TEST(NeverDestroyed, RunsNoDestructor) {
  struct Counts {
    ~Counts() { ++ends; }
    int& ends;
  };
  int ends = 0;
  { [[maybe_unused]] const NeverDestroyed<Counts> counts(ends); }
  EXPECT_EQ(ends, 0);
}

}  // namespace
}  // namespace ec::test
