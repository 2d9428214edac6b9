// What ec_bench measures by: its check of bytes, its measuring loop, and the rows and cases of `ec_bench
// host`.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <stdexcept>

#include "bench/common/measure.hpp"
#include "bench/common/stats.hpp"
#include "bench/common/stripes.hpp"
#include "bench/common/workers.hpp"
#include "bench/host/rows.hpp"
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

HostRow row(const std::string& backend, double call_us, std::size_t chunk_bytes = 4096,
            unsigned threads = 1) {
  return {.op = "encode",
          .k = 4,
          .m = 2,
          .chunk_bytes = chunk_bytes,
          .residence = "pinned",
          .threads = threads,
          .backend = backend,
          .verified = true,
          .judges_router = true,
          .ran = {{backend == "auto" ? "x86" : backend, 1}},
          .samples = {{1e6 * threads / call_us, 1e-6 * call_us}}};
}

TEST(BenchHostRouter, AutoIsSetAgainstTheBestAtEveryPoint) {
  std::vector<HostRow> rows{
      row("cuda", 30),         row("x86", 10),          row("isal", 20),        row("auto", 11),  // 1.1
      row("cuda", 100, 8192),  row("x86", 300, 8192),   row("auto", 150, 8192),                   // 1.5
      row("cuda", 9, 4096, 8), row("auto", 9, 4096, 8),                                           // 1
  };
  const auto worth = router_worth(rows).value();
  EXPECT_EQ(worth.points, 3u);
  EXPECT_NEAR(worth.median, 1.1, 1e-9);
  EXPECT_NEAR(worth.worst, 1.5, 1e-9);
  EXPECT_EQ(worth.at_worst, "encode 4+2, chunks of 8192 bytes, pinned, threads 1: chose x86, best cuda");
  // Wrong bytes win nothing.
  rows[1].verified = rows[4].verified = false;
  EXPECT_NEAR(router_worth(rows).value().worst, 1, 1e-9);
  EXPECT_FALSE(router_worth(std::vector{row("cuda", 1), row("x86", 2)}));
  EXPECT_FALSE(router_worth(std::vector{row("auto", 1)}));
}

TEST(BenchHostReport, QuantilesAreThoseOfAllCalls) {
  CallTimes one;
  CallTimes other;
  EXPECT_EQ(one.quantile_us(0.5), 0);
  for (std::uint64_t ns = 1; ns <= 1000; ++ns) (ns % 2 == 0 ? one : other).add(ns * 1000);
  one.add(other);
  EXPECT_EQ(one.calls(), 1000u);
  for (const double q : {0.0, 0.01, 0.5, 0.99, 1.0}) {
    const double exact = 1 + 999 * q;
    EXPECT_NEAR(one.quantile_us(q), exact, 0.004 * exact + 1) << q;
  }
  // Every class begins where the one before it ends.
  for (std::uint64_t ns = 1; ns < std::uint64_t{1} << 40; ns += 1 + ns / 3) {
    CallTimes single;
    single.add(ns);
    EXPECT_NEAR(1e3 * single.quantile_us(0.5), static_cast<double>(ns), 0.004 * static_cast<double>(ns))
        << ns;
  }
}

TEST(BenchHostReport, ProcessesAreOneRow) {
  HostRow first = row("auto", 1);
  first.ran = {{"cuda", 3}, {"x86", 1}};
  first.ceiling_gbps = 50;
  first.samples = {{100, 0.5}, {300, 0.5}, {200, 0.5}};
  HostRow second = row("auto", 1);
  second.ran = {{"x86", 4}};
  second.samples = {{100, 0.1}, {100, 0.5}, {200, 0.3}};
  first.calls.add(1000);
  second.calls.add(9000);
  // On the way from one process to another nothing is lost.
  const std::vector<HostRow> members{nlohmann::json(first).get<HostRow>(),
                                     nlohmann::json(second).get<HostRow>()};
  const Row all = report_row(merge_rows(members), members);
  EXPECT_EQ(all["processes"], 2);
  EXPECT_EQ(all["chosen"], "x86+cuda");
  EXPECT_EQ(all["chosen_share"], 5. / 8);
  EXPECT_DOUBLE_EQ(all["source_gbps"], 400 * 4 * 4096e-9);  // of 200, 400, 400 calls a second
  EXPECT_DOUBLE_EQ(all["call_us"], 2e6 / 400);
  EXPECT_DOUBLE_EQ(all["cpu_s_per_gb"], 0.4 / (4 * 4096e-9));  // of 0.3, 0.5, 0.4 a call
  EXPECT_NEAR(all["p50_us"], 1, 0.01);
  EXPECT_EQ(all["ceiling_gbps"], 50);
  EXPECT_EQ(all["verified"], true);
  EXPECT_THROW(merge_rows(std::vector{first, row("cuda", 1)}), std::runtime_error);
}

TEST(BenchHostReport, IsalsCpuIsThatOfAsManyThreads) {
  std::vector<HostRow> rows{row("cuda", 1), row("cuda", 1, 4096, 8), row("isal", 5),
                            row("isal", 7, 4096, 16)};
  rows[0].ceiling_gbps = 2 * 4 * 4096e-3;
  EXPECT_DOUBLE_EQ(report_row(rows[0], rows)["isal_cpu_s_per_gb"], 5e-6 / (4 * 4096e-9));
  EXPECT_TRUE(report_row(rows[1], rows)["isal_cpu_s_per_gb"].is_null());
  EXPECT_DOUBLE_EQ(report_row(rows[0], rows)["ratio_ceiling"], 0.5);
}

/// Three stripes of 4+2 for that operation, in ordinary memory.
Stripes make_stripes(const Operation& operation, std::size_t chunk_bytes, std::size_t gap = 0) {
  const std::size_t bytes = Stripes::bytes_needed(operation, chunk_bytes, 3, gap);
  return {operation, chunk_bytes, std::make_shared<const Memory>(Residence::pageable, bytes), 3, gap};
}

class BenchStripes : public testing::TestWithParam<const char*> {};

TEST_P(BenchStripes, EveryWrongByteIsSeen) {
  const Operation operation = make_operation(GetParam(), gf::Technique::reed_sol_van, 4, 2, 2);
  for (const auto& [chunk_bytes, gap] : {std::pair{192, 0}, {160, 0}, {192, 1088}}) {
    const Stripes stripes = make_stripes(operation, static_cast<std::size_t>(chunk_bytes), gap);
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
  EXPECT_EQ(results[0].samples.size(), 5u);
  EXPECT_GT(results[0].calls.calls(), 5u);
  EXPECT_LT(results[0].calls.calls(), sound.calls);  // not those that warmed up
  EXPECT_FALSE(results[2].verified);
  EXPECT_TRUE(results[2].samples.empty());
  EXPECT_EQ(wrong.calls, 3 * order.checked_turns);
}

TEST(BenchMeasure, CallsAreTimedOnTheClockAndByTheirCpuTime) {
  Workers workers(2);
  // 2 ms of CPU time.
  const auto spin = [](std::size_t) {
    const auto now = [] {
      timespec t{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    for (const double end = now() + 0.002; now() < end;) continue;
  };
  const Contestant contestant{
      .name = "spin", .threads = 2, .run = spin, .right = [](std::size_t) { return true; }};
  const auto result =
      measure(workers, {contestant}, {2, 1, 1}, {.rounds = 3, .sample_seconds = 0.01}).front();
  for (const double seconds : call_seconds(result, 2)) EXPECT_GE(seconds, 0.0019);
  for (const Sample& sample : result.samples) EXPECT_GE(sample.cpu_seconds, 0.0019);
  EXPECT_DOUBLE_EQ(speed_ratio(result, result), 1);
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
