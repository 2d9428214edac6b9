// What a process learns of how busy the device is, in a time that the test makes: nothing here waits.
#include "plugin/codec/routing/device_load.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "plugin/codec/routing/router.hpp"
#include "tests/plugin/codec/routing/fake_backend.hpp"

namespace ec::test {
namespace {

using codec::DeviceLoad;
using kernels::Residence;
using kernels::Status;
using Kind = DeviceLoad::Kind;
using Clock = DeviceLoad::Clock;

/// Nanoseconds.
std::atomic<std::int64_t> now_ns;
std::atomic<unsigned> looks;  ///< at the clock

Clock::time_point fake_now() {
  ++looks;
  return Clock::time_point(std::chrono::nanoseconds(now_ns));
}
void pass_us(double us) { now_ns += static_cast<std::int64_t>(1e3 * us); }

struct FakeTime : testing::Test {
  FakeTime() {
    now_ns = 1'000'000'000;
    looks = 0;
  }
  DeviceLoad load{fake_now};
};
using DeviceLoadTest = FakeTime;

void finish(DeviceLoad& load, const DeviceLoad::Prediction& call, double us) {
  const auto begun = load.now();
  pass_us(us);
  load.took(call, begun);
}

constexpr DeviceLoad::Prediction hundred{.device_us = 100, .cpu_us = 1e9};

TEST_F(DeviceLoadTest, FollowsWhatCallsTakeWithinBounds) {
  for (const auto& [us, factor] :
       {std::pair(62., 0.62), {100., 1.}, {390., 3.9}, {6e3, 60.}, {1e9, 64.}, {0., 0.25}}) {
    DeviceLoad one(fake_now);
    for (int i = 0; i < 100; ++i) finish(one, hundred, us);
    EXPECT_NEAR(one.factor(Kind::small), factor, 0.01) << us;
  }
}

TEST_F(DeviceLoadTest, OneCallDoublesOrHalvesItAtMost) {
  for (const double expected : {2., 4., 8., 16., 32., 64., 64.}) {
    finish(load, hundred, 1e6);
    EXPECT_DOUBLE_EQ(load.factor(Kind::small), expected);
  }
  for (const double expected : {32., 16., 8., 4., 2., 1.41421356}) {
    finish(load, hundred, 100);
    EXPECT_NEAR(load.factor(Kind::small), expected, 1e-6);
  }
}

TEST_F(DeviceLoadTest, KeepsKindsApartAndIgnoresWhatIsNoPrediction) {
  for (const double predicted : {0., -1., std::numeric_limits<double>::quiet_NaN()})
    finish(load, {.device_us = predicted, .cpu_us = 1}, 50);
  finish(load, {.kind = Kind::large, .device_us = 100, .cpu_us = 1e9}, 200);
  EXPECT_EQ(load.factor(Kind::small), 1);
  EXPECT_GT(load.factor(Kind::large), 1.4);
  EXPECT_EQ(load.factor(Kind::pageable), 1);
}

TEST_F(DeviceLoadTest, LearnsHowFarTheTableIsOffForTheCpuAndForgetsItWhileTheDeviceHasTheCalls) {
  const auto cpu_takes = [&](double us, int calls) {
    for (int i = 0; i < calls; ++i) {
      const auto begun = load.now();
      pass_us(us);
      load.cpu_took({.device_us = 100, .cpu_table_us = 100}, begun);
    }
    return load.cpu_factor(Kind::small);
  };
  EXPECT_NEAR(cpu_takes(200, 50), 2, 0.3);
  EXPECT_LE(cpu_takes(1e6, 1), 2 * 1.375) << "a thread that was interrupted";
  EXPECT_NEAR(cpu_takes(50, 100), 0.5, 0.1);
  EXPECT_EQ(load.cpu_factor(Kind::large), 1);
  EXPECT_EQ(load.factor(Kind::small), 1);
  for (int i = 0; i < 1000; ++i) finish(load, hundred, 100);
  EXPECT_NEAR(load.cpu_factor(Kind::small), 1, 0.05);
}

TEST_F(DeviceLoadTest, ManyCallsAtOnceTeachWhatOneDoes) {
  constexpr DeviceLoad::Prediction call{.device_us = 100, .cpu_table_us = 100};
  const auto begun = load.now();
  pass_us(400);
  for (int caller = 0; caller < 64; ++caller) load.cpu_took(call, begun);
  EXPECT_NEAR(load.cpu_factor(Kind::small), 4, 0.5);  // less than an eighth off is no news
  const auto later = load.now();
  pass_us(100);
  for (int caller = 0; caller < 64; ++caller) load.cpu_took(call, later);
  EXPECT_NEAR(load.cpu_factor(Kind::small), 1, 0.2);
}

/// Calls until one is a probe.
unsigned calls_until_a_probe(DeviceLoad& load, const DeviceLoad::Prediction& call, double us_a_call) {
  for (unsigned calls = 1; calls < 10'000'000; ++calls) {
    if (load.claim_probe(call)) return calls;
    pass_us(us_a_call);
  }
  return 0;
}

TEST(DeviceLoad, OfSmallCallsOfTheCpuAThreadTimesFew) {
  unsigned small = 0, large = 0;
  for (unsigned call = 0; call < 10 * DeviceLoad::cpu_sample; ++call) {
    small += DeviceLoad::times_cpu({.kind = Kind::small});
    large += DeviceLoad::times_cpu({.kind = Kind::large});
  }
  EXPECT_EQ(small, 10);
  EXPECT_EQ(large, 10 * DeviceLoad::cpu_sample);
}

TEST_F(DeviceLoadTest, AProbeComesEverMoreRarelyAndOnlyAfterAQuietTime) {
  constexpr DeviceLoad::Prediction probe{.probe = true, .device_us = 100, .cpu_us = 200};
  for (const unsigned gap : {7u, 15u, 31u, 63u, 127u, 255u, 511u, 511u}) {
    EXPECT_EQ(calls_until_a_probe(load, probe, 0), gap);
    EXPECT_LE(looks, 1u);
    pass_us(1e6);
    finish(load, probe, 200);  // no loss, and no gain
    looks = 0;
    pass_us(1e6);
  }
  finish(load, probe, 50);  // one that gained is believed, and the next one would come soon
  EXPECT_EQ(load.factor(Kind::small), 0.5);
  EXPECT_EQ(calls_until_a_probe(load, probe, 0), DeviceLoad::first_gap);
  finish(load, probe, 200 + 1000);
  const double until_us = 128'000;
  const unsigned calls = calls_until_a_probe(load, probe, 10);
  EXPECT_GE(calls * 10., until_us);
  EXPECT_LE(calls * 10., until_us + 10 * 2 * DeviceLoad::calls_a_probe);
}

TEST_F(DeviceLoadTest, OfManyThreadsOneHasTheProbe) {
  for (int i = 0; i < 3; ++i) finish(load, hundred, 1e6);
  constexpr unsigned threads = 8, calls = 20 * DeviceLoad::calls_a_probe;
  now_ns += 1'000'000'000'000;
  std::atomic<unsigned> probes{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (unsigned i = 0; i < calls; ++i) probes += load.claim_probe({.device_us = 100, .cpu_us = 200});
    });
  for (auto& thread : all) thread.join();
  EXPECT_EQ(probes, 1u) << "until it has told, it is expected to lose time";
  // Threads that come to the end of a gap at once all look.
  EXPECT_LE(looks, 6 + threads * threads * (20 + 7)) << "the others did not look at the clock";
}

/// A router over a device and a CPU that take as long as they are told to.
struct RouterOnABusyDevice : FakeTime {
  RouterOnABusyDevice() {
    device.meanwhile = [this] { pass_us(device_us); };
    isal.meanwhile = [this] { pass_us(cpu_us); };
  }

  /// The table says what they take now.
  void predict(double device, double cpu) {
    device_us = device;
    cpu_us = cpu;
    table.pinned = {device, 0, 0, 0, 0};
    table.cpu.fill({cpu, 0, 0, 0, 0});
  }
  /// Of `calls` calls, those that the device got.
  unsigned on_device(unsigned calls) {
    const codec::Router router(choice, threshold, table, list, counts, validator, load);
    const unsigned before = device.calls();
    for (unsigned i = 0; i < calls; ++i) EXPECT_EQ(router.transform(one.job), Status::ok);
    return device.calls() - before;
  }

  codec::BackendChoice choice = codec::BackendChoice::automatic;
  std::optional<std::size_t> threshold;
  codec::CostTable table = codec::default_costs();
  double device_us = 0, cpu_us = 0;
  FakeBackend device{"cuda", Status::ok}, isal{"isal", Status::ok};
  std::array<kernels::Backend*, 2> list{&device, &isal};
  codec::Stats counts;
  codec::Validator validator;
  OneByte one;
};

/// As other processes come to the GPU and go: 64 KiB and 1 MiB of 8+3 on an H100 took about 70 and 30 times
/// as long with eleven others beside them.
TEST_F(RouterOnABusyDevice, LeavesItInAFewCallsProbesForNothingMuchAndComesBack) {
  const struct {
    double device_us, cpu_us, times;
  } rows[] = {{26, 35, 70}, {26, 35, 200}, {194, 492, 30}, {194, 492, 200}, {194, 5000, 200}, {26, 35, 2}};
  for (const auto& row : rows) {
    SCOPED_TRACE(testing::Message() << row.device_us << " us times " << row.times << ", CPU " << row.cpu_us);
    new (&load) DeviceLoad(fake_now);
    predict(row.device_us, row.cpu_us);
    EXPECT_EQ(on_device(2000), 2000u);

    device_us *= row.times;
    EXPECT_LE(on_device(20), 6u);
    // The first probe comes soon; from then on the loss is bounded.
    on_device(2 * DeviceLoad::calls_a_probe);
    const auto begun = now_ns.load();
    constexpr unsigned calls = 500'000;
    const unsigned probes = on_device(calls);
    EXPECT_GT(probes, 1u);
    EXPECT_LT(probes, calls / 256);
    EXPECT_LT(probes * 1e3 * (device_us - cpu_us), 0.01 * static_cast<double>(now_ns - begun));

    const double last_loss_us = device_us - cpu_us;
    device_us = row.device_us;
    const auto gone = now_ns.load();
    unsigned more = 0;
    while (on_device(10) < 9 && more < calls) more += 10;
    const double until_us = static_cast<double>(now_ns - gone) / 1e3;
    EXPECT_LE(until_us, DeviceLoad::quiet * last_loss_us + 9 * DeviceLoad::calls_a_probe * row.cpu_us);
    EXPECT_EQ(on_device(2000), 2000u);
  }
}

/// As fast as the CPU, or hardly faster, is not worth a way that others are on.
TEST_F(RouterOnABusyDevice, ADeviceThatIsNotClearlyFasterGetsNothing) {
  predict(25, 31);
  EXPECT_EQ(on_device(10'000), 0u);
  predict(23, 31);
  EXPECT_EQ(on_device(10), 10u);
}

TEST_F(RouterOnABusyDevice, ADeviceFasterThanTheTableSaysGetsMore) {
  predict(100, 140);
  device_us = 50;
  on_device(20);
  table.cpu.fill({80, 0, 0, 0, 0});
  EXPECT_EQ(on_device(10), 10u);
}

TEST_F(RouterOnABusyDevice, ACpuSlowerThanTheTableSaysKeepsFew) {
  predict(100, 90);
  EXPECT_EQ(on_device(100), 0u);
  cpu_us = 250;
  on_device(10);
  EXPECT_GE(on_device(2000), 1850u);
  device_us = 120;  // and the device is no faster than the table's CPU
  on_device(100);
  EXPECT_GE(on_device(2000), 1700u);
  cpu_us = 90;
  on_device(1000);
  EXPECT_LE(on_device(2000), 20u);
}

/// Whether something was learned from 10 calls that took ten times as long as predicted.
TEST_F(RouterOnABusyDevice, LearnsFromComparedCallsThatTheDeviceFinishedAndNobodyChecked) {
  const struct {
    codec::BackendChoice choice;
    std::optional<std::size_t> threshold;
    Status answer;
    unsigned checked_every;
    bool learns;
  } rows[] = {{codec::BackendChoice::automatic, std::nullopt, Status::ok, 0, true},
              {codec::BackendChoice::automatic, std::nullopt, Status::ok, 1, false},
              {codec::BackendChoice::automatic, std::nullopt, Status::busy, 0, false},
              {codec::BackendChoice::automatic, std::nullopt, Status::fault, 0, false},
              {codec::BackendChoice::automatic, 0, Status::ok, 0, false},
              {codec::BackendChoice::gpu, std::nullopt, Status::ok, 0, false}};
  for (const auto& row : rows) {
    new (&load) DeviceLoad(fake_now);
    predict(100, 1e6);
    device_us = 1000;
    choice = row.choice;
    threshold = row.threshold;
    device.answer(row.answer);
    codec::Validator checking({.every = row.checked_every, .whole = false});
    const codec::Router router(choice, threshold, table, list, counts, checking, load);
    const unsigned before = device.calls();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(router.transform(one.job), Status::ok);
    EXPECT_EQ(device.calls() - before, 10u);
    EXPECT_EQ(load.factor(Kind::small) != 1, row.learns) << &row - rows;
  }
}

/// What plain Ceph has: the answer is known, so nothing is read or written that threads share.
TEST_F(RouterOnABusyDevice, PageableChunksWithoutCostsTouchNothing) {
  predict(1, 1000);
  one.source.residence = Residence::pageable;
  EXPECT_EQ(on_device(1000), 0u);
  EXPECT_EQ(looks, 0u);
  table.pageable = codec::Rates{1, 0, 0, 0, 0};
  EXPECT_EQ(on_device(10), 10u);
  EXPECT_EQ(looks, 20u);
}

}  // namespace
}  // namespace ec::test
