// What a process learns of how long calls take, in a time that the test makes: nothing here waits.
#include "plugin/codec/routing/call_times.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "plugin/codec/routing/router.hpp"
#include "tests/common/fake_backend.hpp"
#include "tests/common/threads.hpp"

namespace ec::test {
namespace {

using codec::CallTimes;
using kernels::BackendKind;
using kernels::Residence;
using kernels::Status;
using Clock = CallTimes::Clock;

/// Nanoseconds.
std::atomic<std::int64_t> now_ns;
std::atomic<unsigned> looks;  ///< at the clock

Clock::time_point fake_now() {
  ++looks;
  return Clock::time_point(std::chrono::nanoseconds(now_ns));
}
void pass_us(double us) { now_ns += static_cast<std::int64_t>(1e3 * us); }

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// A device and a CPU that take as long as they are told to for a call of 1 MiB.
struct Machine : testing::Test {
  Machine() { now_ns = looks = 0; }
  void SetUp() override { now_ns = 1'000'000'000; }

  struct Gone {
    unsigned device = 0, probes = 0;
    double us = 0;
  };
  Gone calls(unsigned count, unsigned jobs = 0, std::uint64_t bytes = mib, bool by_size = true) {
    Gone gone;
    for (unsigned i = 0; i < count; ++i) {
      const auto call = times.choose(bytes, jobs, by_size);
      const auto begun = now_ns.load();
      const double cold = call.device && !on_device ? cold_us : 0;
      on_device = call.device;
      const double us =
          cold + (call.device ? device_us * (1 + jobs) : cpu_us) * static_cast<double>(bytes) / mib;
      const Clock::time_point from{std::chrono::nanoseconds(begun)};
      pass_us(us);
      if (call.timed) times.took(call, from, jobs);
      gone.device += call.device;
      gone.probes += call.probe != CallTimes::Probe::none;
      gone.us += us;
    }
    return gone;
  }

  /// Forgets everything, and makes `count` calls that take so long.
  void learn(double device, double cpu, unsigned count = 100, bool by_size = true) {
    new (&times) CallTimes(fake_now);
    device_us = device;
    cpu_us = cpu;
    calls(count, 0, mib, by_size);
  }

  CallTimes times{fake_now};
  double device_us = 0, cpu_us = 0;
  double cold_us = 0;  ///< that the device takes more after a call of the CPU
  bool on_device = false;
};
using CallTimesTest = Machine;

TEST_F(CallTimesTest, TheBetterOneGetsAllButRareProbesWhateverTheSizeSaid) {
  for (const bool by_size : {false, true})
    for (const bool device_is_better : {false, true}) {
      learn(device_is_better ? 100 : 400, 300, 100, by_size);
      constexpr unsigned many = 100'000;
      const Gone gone = calls(many, 0, mib, by_size);
      const unsigned wrong = device_is_better ? many - gone.device : gone.device;
      EXPECT_EQ(wrong, gone.probes);
      EXPECT_GE(gone.probes, 10u);
      EXPECT_LE(gone.probes, CallTimes::probe_calls * (many / CallTimes::longest_gap + 1));
    }
}

/// Hardly faster is not worth a way that others are on.
TEST_F(CallTimesTest, TheDeviceMustBeClearlyFaster) {
  learn(95, 100);
  EXPECT_EQ(calls(400).device, 0u);
  learn(85, 100);
  EXPECT_EQ(calls(400).device, 400u);
}

TEST_F(CallTimesTest, ADeviceThatOnlyIsColdIsFound) {
  cold_us = 20;
  learn(24, 30, 100, false);
  calls(20 * CallTimes::longest_gap);
  EXPECT_GE(calls(400).device, 399u);
}

/// The last call of a probe counts for a half, any other call for a quarter.
TEST_F(CallTimesTest, TheLastCallOfAProbeCountsMoreThanOthers) {
  learn(120, 100);
  device_us = 50;
  cold_us = 100;
  while (calls(1).probes == 0) {
  }
  EXPECT_EQ(calls(1).probes, 1u);
  EXPECT_EQ(calls(6).device, 6u) << "85 of 90";
}

TEST_F(CallTimesTest, CallsInHandSendTheNextOneToTheCpu) {
  learn(100, 300);
  EXPECT_EQ(calls(50, 1).device, 50u) << "200 of 225";
  EXPECT_EQ(calls(50, 2).device, 0u) << "300 of 225";
  EXPECT_EQ(calls(50, 0).device, 50u) << "and nothing was unlearned";
}

/// Each thread finds the jobs of those before it, and the link is shared until all end.
TEST_F(CallTimesTest, ThreadsThatBeginTogetherLearnTheTimeOfOne) {
  learn(15, 80);
  for (unsigned round = 0; round < 50; ++round) {
    const std::int64_t begun_ns = now_ns;
    const Clock::time_point begun = fake_now();
    std::array<CallTimes::Choice, 8> chosen;
    unsigned jobs = 0;
    for (auto& call : chosen) jobs += (call = times.choose(mib, jobs, true)).device;
    ASSERT_GE(jobs, 3u) << round;
    pass_us(device_us * jobs);
    for (const auto& call : chosen)
      if (call.device) times.took(call, begun, --jobs);
    now_ns = begun_ns;
    pass_us(cpu_us);
    for (const auto& call : chosen)
      if (!call.device && call.timed) times.took(call, begun, 0);
  }
}

TEST_F(CallTimesTest, ClassesLearnForThemselves) {
  learn(100, 300);
  device_us = 1000;
  calls(100, 0, 2 * mib);
  calls(100, 0, mib / 2);
  EXPECT_EQ(calls(10, 0, 2 * mib).device, 0u);
  EXPECT_EQ(calls(10, 0, mib / 2).device, 0u);
  device_us = 100;
  EXPECT_EQ(calls(10, 0, mib + mib / 2).device, 10u);
  for (const std::uint64_t bytes : {CallTimes::least_bytes, std::uint64_t{1} << 50}) calls(20, 0, bytes);
}

/// As other processes come to the GPU and go: 64 KiB and 1 MiB of 8+3 on an H100 took about 70 and 30 times
/// as long with eleven others beside them.
TEST_F(CallTimesTest, ADeviceThatOthersTookIsLeftInAFewCallsProbedForNothingMuchAndComeBackTo) {
  const struct {
    double device_us, cpu_us, times;
  } rows[] = {{25, 35, 70}, {25, 35, 200}, {194, 492, 30}, {194, 492, 200}, {194, 5000, 200}, {25, 35, 2}};
  for (const auto& row : rows) {
    SCOPED_TRACE(testing::Message() << row.device_us << " us times " << row.times << ", CPU " << row.cpu_us);
    learn(row.device_us, row.cpu_us);
    EXPECT_GE(calls(2000).device, 1990u);

    device_us *= row.times;
    EXPECT_LE(calls(20).device, 8u);
    calls(2 * CallTimes::longest_gap);
    constexpr unsigned many = 500'000;
    const Gone gone = calls(many);
    EXPECT_GT(gone.device, 1u);
    EXPECT_LE(gone.device, CallTimes::probe_calls * (many / CallTimes::longest_gap + 1));
    EXPECT_LT(gone.device * (device_us - cpu_us), 0.01 * gone.us);

    const double last_loss_us = device_us - cpu_us;
    device_us = row.device_us;
    double until_us = 0;
    for (unsigned i = 0; i < many && calls(1).device == 0; ++i) until_us += cpu_us;
    EXPECT_LE(until_us, CallTimes::quiet * CallTimes::probe_calls * last_loss_us +
                            3 * CallTimes::longest_gap * row.cpu_us);
    EXPECT_GE(calls(2000).device, 1990u);
  }
}

TEST_F(CallTimesTest, AThreadThatWasInterruptedIsNoSlowDevice) {
  learn(100, 300, 1000);
  device_us = 1e6;
  calls(1);
  device_us = 100;
  EXPECT_EQ(calls(5).device, 5u);
}

TEST_F(CallTimesTest, OfManyThreadsOneHasTheProbe) {
  learn(1e4, 100, 3 * CallTimes::longest_gap);
  now_ns += 1'000'000'000'000;
  looks = 0;
  constexpr unsigned threads = 8, each = 20 * CallTimes::longest_gap;
  std::atomic<unsigned> probes{0};
  in_threads(threads, [&](unsigned) {
    for (unsigned i = 0; i < each; ++i) probes += times.choose(mib, 0, true).probe != CallTimes::Probe::none;
  });
  EXPECT_EQ(probes, CallTimes::probe_calls) << "until it has told, it is expected to lose time";
  // Threads that come to the end of a gap at once all look.
  EXPECT_LE(looks, threads * threads * (20 + 3)) << "the others did not look at the clock";
}

TEST_F(CallTimesTest, OfTheCpusCallsFewAreTimed) {
  learn(1e4, 100, 600);
  looks = 0;
  EXPECT_EQ(calls(100).device, 0u);
  EXPECT_EQ(looks, 100 / CallTimes::cpu_sample);
}

// --- What a router tells it.

struct RouterTimes : testing::Test {
  RouterTimes() {
    device.meanwhile = [this] { pass_us(device_us); };
    cpu.meanwhile = [this] { pass_us(cpu_us); };
  }
  unsigned on_device(unsigned calls, unsigned checked_every = 0,
                     codec::Operation operation = codec::Operation::encode) {
    codec::Validator checking({.every = checked_every, .whole = false});
    const codec::Router router(choice, threshold, list, counts, checking, times);
    const unsigned before = device.calls();
    for (unsigned i = 0; i < calls; ++i) EXPECT_EQ(router.transform(job, operation), Status::ok);
    return device.calls() - before;
  }

  codec::BackendChoice choice = codec::BackendChoice::automatic;
  std::optional<std::size_t> threshold;
  double device_us = 1000, cpu_us = 100;
  CallTimes times{fake_now};
  FakeBackend device{"cuda", BackendKind::device, Status::ok}, cpu{"isal", BackendKind::floor, Status::ok};
  std::array<kernels::Backend*, 2> list{&device, &cpu};
  codec::Stats counts;
  std::vector<std::uint8_t> in = std::vector<std::uint8_t>(codec::Router::first_threshold_bytes), out = in;
  kernels::Program program{gf::Matrix(1, 1)};
  kernels::Source source{in.data(), Residence::pinned};
  kernels::Target target{out.data(), Residence::pinned};
  kernels::Job job{&program, {&source, 1}, {&target, 1}, in.size()};
};

TEST_F(RouterTimes, ASlowDeviceIsLeftAfterTheFirstProbeOfTheCpu) {
  EXPECT_EQ(on_device(CallTimes::first_gap - 1), CallTimes::first_gap - 1);
  on_device(1);
  EXPECT_EQ(on_device(5), 0u);
}

TEST_F(RouterTimes, NothingIsLearnedWhereSomethingElseDecidesFailsOrChecks) {
  const struct {
    codec::BackendChoice choice;
    std::optional<std::size_t> threshold;
    Status answer;
    unsigned checked_every;
  } rows[] = {{codec::BackendChoice::automatic, 0, Status::ok, 0},
              {codec::BackendChoice::gpu, std::nullopt, Status::ok, 0},
              {codec::BackendChoice::automatic, std::nullopt, Status::ok, 1},
              {codec::BackendChoice::automatic, std::nullopt, Status::busy, 0},
              {codec::BackendChoice::automatic, std::nullopt, Status::fault, 0}};
  for (const auto& row : rows) {
    new (&times) CallTimes(fake_now);
    choice = row.choice;
    threshold = row.threshold;
    device.answer(row.answer);
    // The CPU's probe teaches something, but of the device nothing is known.
    EXPECT_GE(on_device(30, row.checked_every), 27u) << &row - rows;
  }
}

/// What plain Ceph has: the answer is known, so nothing is read or written that threads share.
TEST_F(RouterTimes, PageableChunksAndShortCallsTouchNothing) {
  looks = 0;
  source.residence = Residence::pageable;
  EXPECT_EQ(on_device(100), 0u);
  source.residence = Residence::pinned;
  job.bytes = CallTimes::least_bytes / 2 - 1;
  EXPECT_EQ(on_device(100), 0u);
  EXPECT_EQ(looks, 0u);
  on_device(CallTimes::cpu_sample, 0, codec::Operation::update);
  EXPECT_NE(looks, 0u) << "an update reads its targets too";
}

}  // namespace
}  // namespace ec::test
