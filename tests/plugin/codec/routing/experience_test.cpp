// What a process learns about the costs of its calls, and that the router uses it.
#include "plugin/codec/routing/experience.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>

#include "plugin/codec/routing/router.hpp"
#include "plugin/codec/stats/counters.hpp"
#include "tests/plugin/codec/checking/one_byte.hpp"
#include "tests/plugin/codec/routing/fake_backend.hpp"
#include "tests/plugin/codec/small_file.hpp"

namespace ec::test {
namespace {

using codec::CallKind;
using codec::Learned;
using codec::Road;
using kernels::Status;

struct OwnLearned {
  Learned learned;
};
/// One that learns into memory of its own.
class Experience : public OwnLearned, public codec::Experience {
 public:
  Experience() : codec::Experience(learned) {}
};

constexpr std::array roads{Road::cpu, Road::device_pinned, Road::device_pageable};

TEST(Experience, StartsWithWhatTheTableSays) {
  const Experience none;
  for (const Road road : roads)
    for (const std::uint64_t bytes : {0u, 1u << 18, 1u << 30}) EXPECT_EQ(none.factor(road, {bytes}), 1);
}

TEST(Experience, FollowsWhatCallsTakeWithinBounds) {
  const struct {
    double predicted, took, factor;
  } rows[] = {{100, 62, 0.62}, {100, 100, 1}, {100, 390, 3.9}, {100, 1e9, 4}, {100, 0, 0.25}};
  for (const auto& row : rows) {
    Experience e;
    for (int i = 0; i < 100; ++i) e.took(Road::cpu, {1000}, row.predicted, row.took);
    EXPECT_NEAR(e.factor(Road::cpu, {1000}), row.factor, 0.01) << row.took;
  }
}

TEST(Experience, OneInterruptedCallMovesItByAnEighthAtMost) {
  for (const auto& [took, factor] : {std::pair(1e6, 1 + 1. / 8), {0., 1 - 1. / 16}}) {
    Experience e;
    for (int i = 0; i < 10; ++i) e.took(Road::cpu, {1000}, 100, 100);
    e.took(Road::cpu, {1000}, 100, took);
    EXPECT_NEAR(e.factor(Road::cpu, {1000}), factor, 1e-9);
  }
}

TEST(Experience, TheFirstCallsCountMore) {
  Experience e;
  double before = 1;
  for (const double part : {1. / 2, 1. / 3, 1. / 4}) {
    e.took(Road::cpu, {1000}, 100, 50);
    EXPECT_NEAR(e.factor(Road::cpu, {1000}), before + part * (0.5 - before), 1e-9);
    before = e.factor(Road::cpu, {1000});
  }
}

TEST(Experience, IgnoresWhatIsNoPrediction) {
  Experience e;
  for (const double predicted : {0., -1., std::numeric_limits<double>::quiet_NaN()})
    e.took(Road::cpu, {1000}, predicted, 50);
  EXPECT_EQ(e.factor(Road::cpu, {1000}), 1);
}

TEST(Experience, KeepsRoadsAndSizesApart) {
  Experience e;
  for (int i = 0; i < 10; ++i) e.took(Road::device_pinned, {std::uint64_t{256} << 10}, 10, 15);
  EXPECT_GT(e.factor(Road::device_pinned, {1}), 1.3);
  EXPECT_EQ(e.factor(Road::device_pinned, {(std::uint64_t{256} << 10) + 1}), 1);
  EXPECT_EQ(e.factor(Road::device_pageable, {1}), 1);
  EXPECT_EQ(e.factor(Road::cpu, {1}), 1);
}

TEST(Experience, KeepsTargetsAndCompanyApart) {
  const struct {
    CallKind learned, same, other;
  } rows[] = {{{1, 1, 0}, {9, 0, 0}, {1, 2, 0}},  {{1, 3, 0}, {1, 4, 0}, {1, 5, 0}},
              {{1, 8, 0}, {1, 5, 0}, {1, 9, 0}},  {{1, 9, 0}, {1, 200, 0}, {1, 8, 0}},
              {{1, 3, 0}, {1, 3, 0}, {1, 3, 1}},  {{1, 3, 1}, {1, 3, 3}, {1, 3, 4}},
              {{1, 3, 4}, {1, 3, 400}, {1, 3, 0}}};
  for (const auto& row : rows) {
    Experience e;
    e.took(Road::cpu, row.learned, 10, 20);
    EXPECT_GT(e.factor(Road::cpu, row.same), 1.4) << row.learned.targets << ' ' << row.learned.others;
    EXPECT_EQ(e.factor(Road::cpu, row.other), 1) << row.other.targets << ' ' << row.other.others;
  }
}

TEST(Experience, EachKindIsTheMostOfItsPlace) {
  const Learned learned;
  for (std::size_t place = 0; place < learned.kinds.size(); ++place) {
    const CallKind most = Learned::most_at(place);
    EXPECT_EQ(Learned::place_of(most), place);
    const auto other = [&](const CallKind& kind) { return Learned::place_of(kind) != place; };
    EXPECT_TRUE(most.moved_bytes + 1 == 0 || other({most.moved_bytes + 1, most.targets, most.others}));
    EXPECT_TRUE(most.targets + 1 == 0 || other({most.moved_bytes, most.targets + 1, most.others}));
    EXPECT_TRUE(most.others + 1 == 0 || other({most.moved_bytes, most.targets, most.others + 1}));
  }
}

TEST(Experience, CallsAreUnderWayInTheirScopes) {
  Experience e;
  {
    const Experience::UnderWay one(e), two(e);
    EXPECT_EQ(one.others(), 0u);
    EXPECT_EQ(two.others(), 1u);
    EXPECT_EQ(one.others_now(), 1u);
    EXPECT_EQ(e.under_way(), 2u);
  }
  EXPECT_EQ(e.under_way(), 0u);
}

/// The threads that had them are the parent's.
TEST(Experience, AChildOfForkHasNoCallsUnderWay) {
  const Experience::UnderWay call(codec::experience());
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(codec::experience().under_way()));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(codec::experience().under_way(), 1u);
}

TEST(Experience, ForgetsWhatItHasNotSeenForLong) {
  Experience e;
  for (int i = 0; i < 100; ++i) e.took(Road::device_pinned, {1}, 10, 40);
  for (int i = 0; i < 4; ++i) e.took(Road::cpu, {1}, 10, 10);
  EXPECT_GT(e.factor(Road::device_pinned, {1}), 3.8);
  for (int i = 0; i < 508; ++i) e.took(Road::cpu, {1}, 10, 10);
  EXPECT_NEAR(e.factor(Road::device_pinned, {1}), 1 + 3 / 2.718, 0.1);
  for (int i = 0; i < 2300; ++i) e.took(Road::cpu, {1}, 10, 10);
  EXPECT_LT(e.factor(Road::device_pinned, {1}), 1.1);
}

/// Calls until there were so many trials.
unsigned calls_for(Experience& e, unsigned trials) {
  unsigned calls = 0;
  for (unsigned seen = 0; seen < trials; ++calls)
    if (e.is_trial(Road::cpu, {1000})) {
      e.tried(Road::cpu, {1000});
      ++seen;
    }
  return calls;
}

unsigned trials_of(Experience& e, unsigned calls) {
  unsigned trials = 0;
  for (unsigned i = 0; i < calls; ++i) trials += e.is_trial(Road::cpu, {1000});
  return trials;
}

/// So many calls a trial, within what chance does to 1000 trials.
void expect_rate(Experience& e, unsigned calls_a_trial) {
  const unsigned trials = trials_of(e, 1000 * calls_a_trial);
  EXPECT_GT(trials, 850u) << calls_a_trial;
  EXPECT_LT(trials, 1150u) << calls_a_trial;
}

TEST(Experience, TrialsBecomeRareWhileTheyChangeNothing) {
  constexpr unsigned repetitions = 400;
  double first = 0, next = 0, after = 0;
  for (unsigned i = 0; i < repetitions; ++i) {
    Experience e;
    first += calls_for(e, Experience::trials_a_step);
    next += calls_for(e, Experience::trials_a_step);
    after += calls_for(e, Experience::trials_a_step);
  }
  constexpr double steps = repetitions * Experience::trials_a_step;
  EXPECT_NEAR(first / steps, Experience::calls_a_first_trial, 0.2 * Experience::calls_a_first_trial);
  EXPECT_NEAR(next / steps, Experience::calls_a_trial, 0.2 * Experience::calls_a_trial);
  EXPECT_NEAR(after / steps, 2 * Experience::calls_a_trial, 0.4 * Experience::calls_a_trial);
  Experience e;
  calls_for(e, 100);
  expect_rate(e, Experience::calls_a_rare_trial);
}

/// Trials of `e` are rare; then `change` happens.
template <class Change>
void expect_frequent_after(Change&& change) {
  double calls = 0;
  constexpr int repetitions = 400;
  for (int i = 0; i < repetitions; ++i) {
    Experience e;
    for (int n = 0; n < 20; ++n) e.took(Road::cpu, {1000}, 100, 100);
    calls_for(e, 100);
    change(e);
    calls += calls_for(e, Experience::trials_a_step);
  }
  EXPECT_NEAR(calls / repetitions / Experience::trials_a_step, Experience::calls_a_trial,
              0.2 * Experience::calls_a_trial);
}

TEST(Experience, TrialsAreFrequentAgainOnceTheRoadWasTheBestOrSurprised) {
  expect_frequent_after([](Experience& e) { e.is_best(Road::cpu, {1000}); });
  expect_frequent_after([](Experience& e) { e.took(Road::cpu, {1000}, 100, 70); });
  Experience e;
  for (int n = 0; n < 20; ++n) e.took(Road::cpu, {1000}, 100, 100);
  calls_for(e, 100);
  // That another road is the best, or that this one takes what it took or longer, is nothing new.
  e.is_best(Road::device_pinned, {1000});
  e.took(Road::cpu, {1000}, 100, 80);
  e.took(Road::cpu, {1000}, 100, 200);
  expect_rate(e, Experience::calls_a_rare_trial);
}

/// A caller that does two things in turn must not have all its trials at one of them.
TEST(Experience, TrialsKeepNoTimeWithTheCaller) {
  Experience e;
  calls_for(e, 100);
  unsigned even = 0, odd = 0;
  for (unsigned i = 0; i < 1000 * Experience::calls_a_rare_trial; ++i)
    (i % 2 == 0 ? even : odd) += e.is_trial(Road::cpu, {1000});
  EXPECT_GT(even, 300u);
  EXPECT_GT(odd, 300u);
}

TEST(Experience, LearnsFromTheFirstCallsAndThenFromSome) {
  Experience e;
  for (int i = 0; i < 7; ++i) {
    for (const bool brief : {true, false}) EXPECT_TRUE(e.is_lesson(Road::cpu, {1000}, brief)) << i;
    e.took(Road::cpu, {1000}, 1, 1);
  }
  for (const auto& [brief, calls] :
       {std::pair(false, Experience::calls_a_lesson), {true, Experience::brief_calls_a_lesson}}) {
    unsigned lessons = 0;
    for (unsigned i = 0; i < 1000 * calls; ++i) lessons += e.is_lesson(Road::cpu, {1000}, brief);
    EXPECT_GT(lessons, 850u);
    EXPECT_LT(lessons, 1150u);
  }
}

/// Spins for as long as it is told to.
class SlowBackend final : public kernels::Backend {
 public:
  explicit SlowBackend(std::string_view name) : name_(name) {}
  std::string_view name() const noexcept override { return name_; }
  bool supports(const kernels::Job&) const noexcept override { return true; }
  Status transform(const kernels::Job&) noexcept override {
    if (meanwhile) meanwhile();
    const auto end = std::chrono::steady_clock::now() + takes;
    while (std::chrono::steady_clock::now() < end) {
    }
    calls += answer == Status::ok;
    return answer;
  }
  Status accumulate(const kernels::Job& job) noexcept override { return transform(job); }

  std::chrono::microseconds takes{0};
  std::function<void()> meanwhile;
  Status answer = Status::ok;
  unsigned calls = 0;  ///< that it finished

 private:
  std::string_view name_;
};

/// A table that says 100 us for the device and 150 for the CPU. What is asked of the parts leaves room for a
/// machine that interrupts the spinning.
class RouterLearns : public testing::Test {
 protected:
  RouterLearns() {
    table_.pinned = {100, 0, 0, 0, 0};
    for (auto& each : table_.cpu) each.rates = {150, 0, 0, 0, 0};
  }

  /// Of `calls` calls, the part that the device got.
  double on_device(unsigned calls, Experience* experience) {
    const codec::Router router(codec::BackendChoice::automatic, std::nullopt, table_, list_, counts_,
                               codec::no_validation(), load_, experience);
    const unsigned before = device_.calls;
    for (unsigned i = 0; i < calls; ++i) EXPECT_EQ(router.transform(one_.job), Status::ok);
    return (device_.calls - before) / static_cast<double>(calls);
  }

  void take_us(double device, double cpu) {
    table_.pinned = {device, 0, 0, 0, 0};
    for (auto& each : table_.cpu) each.rates = {cpu, 0, 0, 0, 0};
    device_.takes = std::chrono::microseconds(static_cast<int>(device));
    isal_.takes = std::chrono::microseconds(static_cast<int>(cpu));
  }

  codec::CostTable table_ = codec::default_costs();
  SlowBackend device_{"cuda"}, isal_{"isal"};
  std::array<kernels::Backend*, 2> list_{&device_, &isal_};
  codec::Counters counts_;
  codec::CpuLoad load_{1, "/nonexistent"};
  OneByte one_;
};

TEST_F(RouterLearns, WhereTheTableIsRightItIsFollowed) {
  Experience experience;
  device_.takes = std::chrono::microseconds(100);
  isal_.takes = std::chrono::microseconds(150);
  EXPECT_GE(on_device(640, &experience), 0.6);
}

TEST_F(RouterLearns, ACpuFasterThanPredictedGetsTheCalls) {
  Experience experience;
  device_.takes = std::chrono::microseconds(100);
  isal_.takes = std::chrono::microseconds(50);
  EXPECT_EQ(on_device(200, nullptr), 1);
  on_device(400, &experience);  // a trial tells
  EXPECT_LE(on_device(320, &experience), 0.4);
}

TEST_F(RouterLearns, ADeviceThatBecomesSlowLosesThemAndGetsThemBack) {
  Experience experience;
  device_.takes = std::chrono::microseconds(400);
  isal_.takes = std::chrono::microseconds(150);
  on_device(200, &experience);
  EXPECT_LE(on_device(320, &experience), 0.4);
  device_.takes = std::chrono::microseconds(75);
  on_device(4000, &experience);
  EXPECT_GE(on_device(320, &experience), 0.6);
}

/// Threads wait for cores, but short calls are not interrupted: what they take must not hide the load.
TEST_F(RouterLearns, TheLoadOfTheCoresIsNotLearnedAway) {
  Experience experience;
  take_us(100, 80);
  EXPECT_LE(on_device(400, &experience), 0.4);
  const SmallFile loadavg("0 0 0 8/99 1");
  codec::CpuLoad busy(4, loadavg.path());
  const codec::Router router(codec::BackendChoice::automatic, std::nullopt, table_, list_, counts_,
                             codec::no_validation(), busy, &experience);
  const unsigned before = device_.calls;
  for (int i = 0; i < 400; ++i) EXPECT_EQ(router.transform(one_.job), Status::ok);
  EXPECT_GE(device_.calls - before, 240u);
}

TEST_F(RouterLearns, TrialsAreRareUntilTheBestChanges) {
  Experience experience;
  take_us(20, 30);
  const auto& cpu =
      experience.learned.kinds[Learned::place_of({2})].by_road[static_cast<std::size_t>(Road::cpu)];
  for (unsigned steps = 0; cpu.tried < 3 * Experience::trials_a_step; ++steps) {
    ASSERT_LT(steps, 100u);
    on_device(1000, &experience);
  }
  // The device grows slower, bit by bit, until the CPU is the best: whether it still is will be news again.
  for (const int us : {25, 31, 38, 45}) {
    device_.takes = std::chrono::microseconds(us);
    on_device(300, &experience);
  }
  EXPECT_LE(on_device(300, &experience), 0.4);
  EXPECT_LE(cpu.tried, Experience::trials_a_step + 2);
}

/// It comes up, say, and nothing was seen of it.
TEST_F(RouterLearns, ADeviceThatWasBusyWasNotTried) {
  Experience experience;
  take_us(100, 80);
  device_.answer = Status::busy;
  EXPECT_EQ(on_device(2000, &experience), 0);
  device_.answer = Status::ok;
  EXPECT_GE(300 * on_device(300, &experience), 5);
}

/// What is learned is written where all threads read.
TEST_F(RouterLearns, BriefCallsTeachLessOften) {
  constexpr unsigned calls = 6400;
  for (const auto& [cpu_us, least, most] : {std::tuple(9., 40u, 250u), {11., 500u, 1200u}}) {
    Experience experience;
    take_us(60, cpu_us);  // too far for trials
    unsigned lessons = 0;
    for (unsigned i = 0; i < calls; ++i) {
      const double before = experience.factor(Road::cpu, {2});
      on_device(1, &experience);
      lessons += experience.factor(Road::cpu, {2}) != before;
    }
    EXPECT_GE(lessons, least) << cpu_us;
    EXPECT_LE(lessons, most) << cpu_us;
  }
}

/// A count that all threads write is worth it for calls that take longer.
TEST_F(RouterLearns, BriefCallsAreNotCountedAsCompany) {
  for (const auto& [cpu_us, counted] : {std::pair(9., 0u), {11., 1u}}) {
    take_us(12, cpu_us);
    Experience experience;
    unsigned seen = 99;
    isal_.meanwhile = device_.meanwhile = [&] { seen = experience.under_way(); };
    on_device(1, &experience);
    EXPECT_EQ(seen, counted) << cpu_us;
    // But it sees the others.
    const Experience::UnderWay other(experience);
    on_device(100, &experience);
    EXPECT_NE(experience.factor(Road::cpu, {2, 1, 1}), 1) << cpu_us;
    EXPECT_NE(experience.factor(Road::cpu, {2}), experience.factor(Road::device_pinned, {2})) << "learned";
  }
}

/// Several cores copy pageable chunks, and others want them.
TEST_F(RouterLearns, PageableChunksStayWithTheCpuInCompany) {
  table_.pageable = table_.pinned;
  one_.source.residence = kernels::Residence::pageable;
  Experience experience;
  device_.takes = std::chrono::microseconds(100);
  isal_.takes = std::chrono::microseconds(150);
  EXPECT_GE(on_device(320, &experience), 0.6);
  const Experience::UnderWay other(experience);
  EXPECT_LE(on_device(320, &experience), 0.4);
}

/// That of its begin or of its end: here another came while it ran.
TEST_F(RouterLearns, WhatACallTookIsKeptWithItsCompany) {
  for (auto& each : table_.cpu) each.rates = {300, 0, 0, 0, 0};  // too far for a trial
  Experience experience;
  std::optional<Experience::UnderWay> later;
  device_.takes = std::chrono::microseconds(200);
  device_.meanwhile = [&] { later.emplace(experience); };
  on_device(1, &experience);
  EXPECT_EQ(experience.under_way(), 1u) << "the call has ended";
  EXPECT_EQ(experience.factor(Road::device_pinned, {2, 1, 0}), 1);
  EXPECT_GT(experience.factor(Road::device_pinned, {2, 1, 1}), 1.2);
}

TEST_F(RouterLearns, ForcedCallsTeachNothing) {
  Experience experience;
  const codec::Router forced(codec::BackendChoice::gpu, std::nullopt, table_, list_, counts_,
                             codec::no_validation(), load_, &experience);
  EXPECT_EQ(forced.transform(one_.job), Status::ok);
  EXPECT_EQ(experience.factor(Road::device_pinned, {2}), 1);
  EXPECT_EQ(experience.factor(Road::cpu, {2}), 1);
}

TEST_F(RouterLearns, ShortCallsStayWithTheCpuWhateverTheLoad) {
  table_.pinned = {16, 0, 0, 0, 0};
  for (auto& each : table_.cpu) each.rates = {0, 1, 10, 10, 1};  // 1 us, where 16 / 8 is the bound
  Experience experience;
  EXPECT_EQ(on_device(100, &experience), 0);
  EXPECT_EQ(experience.factor(Road::cpu, {2}), 1);
}

}  // namespace
}  // namespace ec::test
