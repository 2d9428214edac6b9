// What ec_bench measures by: its check of bytes, its measuring loop, and the sum of many processes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <stdexcept>
#include <tuple>

#include "bench/common/measure.hpp"
#include "bench/common/stats.hpp"
#include "bench/common/stripes.hpp"
#include "bench/common/workers.hpp"
#include "bench/host/processes.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;

TEST(BenchStats, MedianAndNoise) {
  const std::vector<double> odd{5, 1, 3};
  EXPECT_DOUBLE_EQ(median(odd), 3);
  EXPECT_DOUBLE_EQ(quantile(odd, 0.25), 2);
  EXPECT_DOUBLE_EQ(noise_percent(odd), 100.0 / 3);  // half of 4 - 2, of 3
  EXPECT_DOUBLE_EQ(median(std::vector<double>{1, 2}), 1.5);
  EXPECT_DOUBLE_EQ(quantile(odd, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(odd, 1), 5);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7}), 7);
  EXPECT_DOUBLE_EQ(noise_percent(std::vector<double>{7}), 0);
}

TEST(BenchStats, QuantilesAreThoseOfAllCalls) {
  CallHistogram one;
  CallHistogram other;
  EXPECT_EQ(one.quantile_us(0.5), 0);
  for (std::uint64_t ns = 1; ns <= 1000; ++ns) (ns % 2 == 0 ? one : other).add(ns * 1000);
  one.add(other);
  EXPECT_EQ(one.calls(), 1000u);
  for (const double q : {0.0, 0.01, 0.5, 0.99, 1.0}) {
    const double exact = 1 + 999 * q;
    EXPECT_NEAR(one.quantile_us(q), exact, 0.004 * exact + 1) << q;
  }
  // Every class begins where the one before it ends.
  for (std::uint64_t ns = 1; ns < std::uint64_t{1} << 31; ns += 1 + ns / 3) {
    CallHistogram single;
    single.add(ns);
    EXPECT_NEAR(1e3 * single.quantile_us(0.5), static_cast<double>(ns), 0.004 * static_cast<double>(ns))
        << ns;
  }
}

TEST(BenchHost, ProcessesAreOneResult) {
  const auto result = [](std::initializer_list<Sample> samples, std::uint64_t nanoseconds) {
    HostResult one{{.verified = true, .rounds = samples.size()}};
    std::ranges::copy(samples, one.measured.samples.begin());
    one.measured.calls.add(nanoseconds);
    return one;
  };
  HostResult all = result({{100, 0.5}, {300, 0.5}, {200, 0.5}}, 1000);
  all.ran[1] = 3;
  all.ran[0] = 1;
  HostResult other = result({{100, 0.1}, {100, 0.5}, {200, 0.3}}, 9000);
  other.ran[0] = 4;
  all.add(other);
  const auto backends = kernels::backends();
  EXPECT_EQ(all.chosen(), fmt::format("{}+{}", backends[0]->name(), backends[1]->name()));
  const std::vector<Contestant> coders{{.name = "coder", .threads = 8}};
  EXPECT_DOUBLE_EQ(Figures(coders, {&all.measured, 1}).call_seconds(0), 8. / 400);   // of 200, 400, 400
  EXPECT_DOUBLE_EQ(Figures(coders, {&all.measured, 1}, true).call_seconds(0), 0.4);  // of 0.3, 0.5, 0.4
  EXPECT_NEAR(all.measured.calls.quantile_us(0.5), 1, 0.01);
  // The processes worked one after the other.
  HostResult later = result({{50, 0, 1, 2}, {50, 0, 1, 2}, {50, 0, 1, 2}}, 1000);
  later.add(result({{50, 0, 2, 3}, {50, 0, 0, 1}, {50, 0, 1, 3}}, 1000));
  EXPECT_DOUBLE_EQ(Figures(coders, {&later.measured, 1}).call_seconds(0), 8. / 50);
  EXPECT_THROW(all.add(result({{1, 1}}, 1)), std::runtime_error);
}

class BenchStripes : public testing::TestWithParam<const char*> {};

TEST_P(BenchStripes, EveryWrongByteIsSeen) {
  const Operation operation = make_operation({GetParam(), gf::Technique::reed_sol_van, 4, 2});
  for (const auto& [chunk_bytes, gap] : {std::pair{192, 0}, {160, 0}, {192, 1088}}) {
    const Stripes stripes(operation, static_cast<std::size_t>(chunk_bytes), Residence::pageable, 3, gap);
    for (std::size_t s = 0; s < 3; ++s) {
      stripes.spoil(s);
      EXPECT_FALSE(stripes.right(s));
      ASSERT_EQ(kernels::find_backend("reference")->transform(stripes.job(s)), kernels::Status::ok);
      EXPECT_TRUE(stripes.right(s));
      for (const auto& target : stripes.targets(s)) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(target.data) % 64, 0u);
        for (const int at : {0, chunk_bytes / 2, chunk_bytes - 1}) {
          target.data[at] ^= 1;
          EXPECT_FALSE(stripes.right(s));
          target.data[at] ^= 1;
        }
      }
    }
    // No stripe passes for another.
    std::copy_n(stripes.targets(0)[0].data, chunk_bytes, stripes.targets(1)[0].data);
    EXPECT_FALSE(stripes.right(1));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, BenchStripes, testing::Values("encode", "decode"),
                         [](const auto& info) { return std::string(info.param); });

/// Notes which stripes are coded by whom.
struct Noted {
  std::mutex mutex;
  std::set<std::size_t> stripes;
  std::atomic<unsigned> calls{0};
};

Contestant noting(Noted& noted, const std::string& name, unsigned threads, bool right) {
  return {.name = name,
          .threads = threads,
          .run =
              [&](std::size_t stripe) {
                std::lock_guard lock(noted.mutex);
                noted.stripes.insert(stripe);
                ++noted.calls;
              },
          .right = [right](std::size_t) { return right; }};
}

TEST(BenchMeasure, EveryThreadHasStripesOfItsOwnAndWrongBytesAreNotTimed) {
  Noted sound, narrow, wrong;
  Workers workers(3);
  const std::vector<Contestant> contestants{
      noting(sound, "sound", 3, true), noting(narrow, "narrow", 2, true), noting(wrong, "wrong", 3, false)};
  const StripeOrder order{3, 4, 2};
  const auto results =
      measure(workers, contestants, order,
              {.rounds = 5, .sample_seconds = 0.001, .warm_seconds = 0.002, .each_call = true});
  EXPECT_EQ(sound.stripes.size(), order.stripes());
  EXPECT_EQ(narrow.stripes, (std::set<std::size_t>{0, 1, 3, 4, 6, 7, 9, 10}));
  EXPECT_TRUE(results[0].verified && results[1].verified);
  EXPECT_EQ(results[0].rounds, 5u);
  EXPECT_GT(results[0].calls.calls(), 5u);
  EXPECT_LT(results[0].calls.calls(), sound.calls);  // not those that warmed up
  EXPECT_FALSE(results[2].verified);
  EXPECT_EQ(results[2].rounds, 0u);
  EXPECT_EQ(wrong.calls, 3 * order.checked_turns);
}

TEST(BenchMeasure, LaterCallsAreLookedAtToo) {
  enum Byte { spoilt, right, wrong };
  // Each sample is one call, in the next stripe. Two calls of the first check where there are two stripes, a
  // warm one, and a timed one, whose bytes are not spoilt before.
  for (const auto& [turns, sound_calls, later, is_seen] : {std::tuple{1u, 1u, spoilt, true},
                                                           {1, 1, wrong, true},
                                                           {1, 2, wrong, true},
                                                           {1, 3, wrong, false},
                                                           {9, 2, spoilt, true},
                                                           {9, 2, wrong, true},
                                                           {9, 3, wrong, true},
                                                           {9, 4, wrong, false}}) {
    std::vector<Byte> stripes(turns);
    unsigned calls = 0;
    const Contestant sound{.name = "sound",
                           .run = [&](std::size_t s) { stripes[s] = right; },
                           .spoil = [&](std::size_t s) { stripes[s] = spoilt; },
                           .right = [&](std::size_t s) { return stripes[s] == right; }};
    Contestant odd = sound;
    odd.run = [&, sound_calls = sound_calls, later = later](std::size_t s) {
      if (const bool is_sound = calls++ < sound_calls; is_sound || later == wrong)
        stripes[s] = is_sound ? right : wrong;
    };
    Workers workers(1);
    const auto results = measure(workers, {sound, odd}, {1, turns, 2}, {.rounds = 1});
    EXPECT_TRUE(results[0].verified);
    EXPECT_EQ(results[1].verified, !is_seen) << turns << ' ' << sound_calls << ' ' << later;
  }
}

TEST(BenchMeasure, NobodyFollowsItself) {
  for (const unsigned count : {2u, 3u, 4u}) {
    std::vector<unsigned> order;
    std::vector<Contestant> contestants;
    for (unsigned i = 0; i < count; ++i)
      contestants.push_back({.name = "noted",
                             .prepare = [&, i] { order.push_back(i); },
                             .run = [](std::size_t) {},
                             .right = [](std::size_t) { return true; }});
    Workers workers(1);
    measure(workers, contestants, {}, {.rounds = 31});
    EXPECT_EQ(std::ranges::adjacent_find(order), order.end()) << count;
  }
}

TEST(BenchMeasure, OneProcessWithWrongBytesStopsAll) {
  const auto measure_in_two = [](auto is_right) {
    alarm(60);
    const Processes processes({2}, 1);
    Workers workers(1);
    const Contestant one{
        .name = "one", .run = [](std::size_t) {}, .right = [&](std::size_t) { return is_right(processes); }};
    const auto result = measure(workers, {one}, {},
                                {.rounds = 1,
                                 .before_sample = [&] { processes.wait(0); },
                                 .agree = [&](bool right) { return processes.agree(0, right); }})
                            .front();
    _exit(result.verified ? 2 : 0);
  };
  int looks = 0;
  EXPECT_EXIT(measure_in_two([](auto& processes) { return processes.number() == 0; }),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(measure_in_two([&](auto& processes) { return processes.number() == 1 || looks++ == 0; }),
              testing::ExitedWithCode(0), "");
}

TEST(BenchMeasure, CallsAreTimedOnTheClockAndByTheirCpuTime) {
  Workers workers(8);
  // 2 ms of CPU time, on a core of its own or on one that all threads share.
  std::mutex core;
  unsigned threads = 2;
  const auto spin = [&](std::size_t) {
    std::unique_lock lock(core, std::defer_lock);
    if (threads == 8) lock.lock();
    const auto now = [] {
      timespec t{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    for (const double end = now() + 0.002; now() < end;) continue;
  };
  for (; threads <= 8; threads *= 4) {
    const Contestant contestant{
        .name = "spin", .threads = threads, .run = spin, .right = [](std::size_t) { return true; }};
    const auto result =
        measure(workers, {contestant}, {8, 1, 1}, {.rounds = 3, .sample_seconds = 0.01}).front();
    for (const Sample& sample : std::span(result.samples).first(result.rounds)) {
      EXPECT_GE((threads == 8 ? 1 : threads) / sample.calls_per_second(), 0.0019);
      EXPECT_GE(sample.cpu_seconds, 0.0019);
    }
  }
}

TEST(BenchMeasure, WhatIsPreparedIsNotTimed) {
  Workers workers(1);
  unsigned prepared = 0, calls = 0;
  std::thread::id by;
  const auto prepare = [&] {
    ++prepared;
    by = std::this_thread::get_id();
    usleep(200'000);
  };
  const auto run = [&](std::size_t) {
    EXPECT_EQ(prepared, calls++);
    EXPECT_TRUE(prepared == 0 || by == std::this_thread::get_id());
  };
  Contestant quick{
      .name = "quick", .prepare = prepare, .run = run, .right = [](std::size_t) { return true; }};
  EXPECT_GT(measure(workers, {quick}, {}, {.rounds = 1}).front().samples[0].calls_per_second(), 10);
  EXPECT_EQ(prepared, 2u);  // before the warm call too
}

TEST(BenchFigures, AreOfTheVerified) {
  std::vector<Contestant> contestants;
  std::vector<Result> results;
  for (const auto& [name, seconds] :
       {std::pair{"slow", 4}, {"fast a", 2}, {"fast b", 1}, {"fast wrong", 0}}) {
    contestants.push_back({.name = name});
    results.push_back({.verified = seconds > 0, .rounds = 3});
    std::ranges::fill_n(results.back().samples.begin(), 3, Sample{1.0 / seconds, 0});
  }
  const Figures figures(contestants, results);
  EXPECT_EQ(figures.fastest("fast"), 2u);
  EXPECT_EQ(figures.find("slow"), 0u);
  EXPECT_EQ(figures.find("fast wrong"), std::nullopt);
  EXPECT_DOUBLE_EQ(figures.times(1, 0).value(), 2);
  EXPECT_DOUBLE_EQ(figures.call_seconds(1), 2);
  EXPECT_DOUBLE_EQ(figures.noise_percent(1), 0);
}

TEST(BenchWorkers, RunEachOnceAndThrowWhatOneThrew) {
  Workers workers(3);
  for (const unsigned threads : {3u, 1u, 2u}) {
    std::vector<unsigned> runs(3);
    workers.run(threads, [&](unsigned t) { ++runs[t]; });
    for (unsigned t = 0; t < 3; ++t) EXPECT_EQ(runs[t], t < threads ? 1u : 0u);
  }
  EXPECT_THROW(workers.run(2,
                           [](unsigned t) {
                             if (t == 1) throw std::runtime_error("no");
                           }),
               std::runtime_error);
  EXPECT_NO_THROW(workers.run(2, [](unsigned) {}));
}

}  // namespace
}  // namespace ec::bench
