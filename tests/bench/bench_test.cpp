// What ec_bench measures by: its check of bytes, its measuring loop, and the rows and cases of `ec_bench
// host`.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <stdexcept>
#include <tuple>

#include "bench/common/measure.hpp"
#include "bench/common/options.hpp"
#include "bench/common/stats.hpp"
#include "bench/common/stripes.hpp"
#include "bench/common/workers.hpp"
#include "bench/host/cases.hpp"
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
  HostRow r;
  r.op = "encode";
  r.k = 4;
  r.m = 2;
  r.chunk_bytes = chunk_bytes;
  r.residence = "pinned";
  r.threads = threads;
  r.backend = backend;
  r.ran = {{backend == "auto" ? "x86" : backend, 1}};
  r.call_us = call_us;
  r.cpu_s_per_gb = call_us / 100;
  r.verified = true;
  r.judges_router = true;
  return r;
}

TEST(BenchHostRouter, AutoIsSetAgainstTheBestAtEveryPoint) {
  const std::vector<HostRow> rows{
      row("cuda", 30),         row("x86", 10),          row("isal", 20),        row("auto", 11),  // 1.1
      row("cuda", 100, 8192),  row("x86", 300, 8192),   row("auto", 150, 8192),                   // 1.5
      row("cuda", 9, 4096, 8), row("auto", 9, 4096, 8),                                           // 1
  };
  const auto worth = router_worth(rows).value();
  EXPECT_EQ(worth.points, 3u);
  EXPECT_DOUBLE_EQ(worth.median, 1.1);
  EXPECT_DOUBLE_EQ(worth.worst, 1.5);
  EXPECT_EQ(worth.at_worst.chunk_bytes, 8192u);
  EXPECT_EQ(worth.best_at_worst, "cuda");
  EXPECT_NE(worth_line(worth).find("1.500"), std::string::npos);
}

TEST(BenchHostRouter, WhoRanIsNamedWithItsShare) {
  HostRow r;
  EXPECT_EQ(r.chosen(), "");
  EXPECT_EQ(r.chosen_share(), 0);
  r.ran = {{"x86", 31}, {"cuda", 1}};
  EXPECT_EQ(r.chosen(), "x86+cuda");
  EXPECT_EQ(to_json(r)["chosen_share"], 31. / 32);
}

TEST(BenchHostRouter, WrongBytesWinNothing) {
  std::vector<HostRow> rows{row("cuda", 1), row("x86", 10), row("auto", 10)};
  rows[0].verified = false;
  EXPECT_DOUBLE_EQ(router_worth(rows).value().worst, 1);
  EXPECT_FALSE(router_worth({row("cuda", 1), row("x86", 2)}));
  EXPECT_FALSE(router_worth({row("auto", 1)}));
}

TEST(BenchHostReport, QuantilesAreThoseOfAllCalls) {
  CallTimes one;
  CallTimes other;
  EXPECT_EQ(one.quantile_us(0.5), 0);
  for (std::uint64_t ns = 1; ns <= 1000; ++ns) (ns % 2 == 0 ? one : other).add(ns * 1000);
  one.add(CallTimes::from_json(other.to_json()));
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
  HostRow first = row("auto", 0);
  first.ran = {{"cuda", 3}, {"x86", 1}};
  first.ceiling_gbps = 50;
  first.samples = {{100, 0.5}, {300, 0.5}, {200, 0.5}};
  HostRow second = row("auto", 0);
  second.ran = {{"x86", 4}};
  second.samples = {{100, 0.1}, {100, 0.5}, {200, 0.3}};
  first.calls.add(1000);
  second.calls.add(9000);
  // On the way from one process to another nothing is lost.
  const std::vector<HostRow> members{row_of_raw(raw_json(first)), row_of_raw(raw_json(second))};
  const HostRow all = merge_rows(members);
  EXPECT_EQ(all.processes, 2u);
  EXPECT_EQ(all.chosen(), "x86+cuda");
  EXPECT_EQ(all.chosen_share(), 5. / 8);
  EXPECT_DOUBLE_EQ(all.source_gbps, 400 * 4 * 4096e-9);  // of 200, 400, 400 calls a second
  EXPECT_DOUBLE_EQ(all.call_us, 2e6 / 400);
  EXPECT_DOUBLE_EQ(all.cpu_s_per_gb, 0.4 / (4 * 4096e-9));  // of 0.3, 0.5, 0.4 a call
  EXPECT_NEAR(all.p50_us, 1, 0.01);
  EXPECT_EQ(all.ceiling_gbps, 50);
  EXPECT_TRUE(all.verified);
  EXPECT_THROW(merge_rows(std::vector{first, row("cuda", 1)}), std::runtime_error);
}

TEST(BenchHostReport, IsalsCpuIsThatOfAsManyThreads) {
  std::vector<HostRow> rows{row("cuda", 1), row("cuda", 1, 4096, 8), row("isal", 5),
                            row("isal", 7, 4096, 16)};
  set_isal_cpu(rows);
  EXPECT_DOUBLE_EQ(rows[0].isal_cpu_s_per_gb.value(), 0.05);
  EXPECT_FALSE(rows[1].isal_cpu_s_per_gb);
  EXPECT_TRUE(to_json(rows[1])["isal_cpu_s_per_gb"].is_null());
  rows[0].source_gbps = 48;
  rows[0].ceiling_gbps = 50;
  EXPECT_DOUBLE_EQ(to_json(rows[0])["ratio_ceiling"].get<double>(), 0.96);
}

HostOptions options_of(const std::vector<std::string>& arguments) {
  CommandLine line = host_command_line();
  line.parse(arguments);
  return host_options(line);
}

bool has(const std::vector<HostCase>& cases, const std::string& op, unsigned k, std::size_t chunk,
         Residence residence, const HostEntrant& entrant) {
  return std::ranges::any_of(cases, [&](const HostCase& c) {
    return c.op == op && c.k == k && c.chunk_bytes == chunk && c.residence == residence &&
           std::ranges::find(c.entrants, entrant) != c.entrants.end();
  });
}

TEST(BenchHostOptions, TheDefaultsHoldThePointsOfTheBars) {
  const auto cases = options_of({}).cases;
  constexpr std::size_t K = 1024, M = 1024 * K;
  for (const auto* op : {"encode", "decode-1", "decode-m"}) {
    EXPECT_TRUE(has(cases, op, 10, 64 * M, Residence::pinned, {"cuda", 1})) << op;
    EXPECT_TRUE(has(cases, op, 10, 64 * M, Residence::device, {"cuda", 1})) << op;
    EXPECT_FALSE(has(cases, op, 10, 64 * M, Residence::device, {"isal", 1})) << op;
    for (const std::size_t chunk : {4 * K, 64 * K, 256 * K, M})
      for (const unsigned threads : {1u, 8u})
        for (const auto* backend : {"cuda", "isal", "auto"})
          EXPECT_TRUE(has(cases, op, 8, chunk, Residence::pinned, {backend, threads})) << op << chunk;
    EXPECT_TRUE(has(cases, op, 8, M, Residence::pinned, {"isal", all_cores()})) << op;
  }
  EXPECT_EQ(std::ranges::count_if(cases, &HostCase::judges_router), 4 * 8 * 2);
  EXPECT_TRUE(has(cases, "encode", 32, 64 * M, Residence::pageable, {"auto", 8}));
  // What several sections want is measured once.
  std::set<std::tuple<std::string, unsigned, unsigned, std::size_t, Residence>> seen;
  for (const auto& c : cases)
    EXPECT_TRUE(seen.emplace(c.op, c.k, c.m, c.chunk_bytes, c.residence).second)
        << c.op << c.k << c.chunk_bytes;
}

TEST(BenchHostOptions, OneChunkOfOneIsNotMeasuredTwice) {
  const auto cases = options_of({"--sections", "pinned", "--shapes", "4+1", "--chunks", "4K"}).cases;
  EXPECT_EQ(cases.size(), 2u);  // encode, decode-1
}

TEST(BenchHostOptions, WhatIsNotAllowedIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"--sections", "none"}, {"--backends", "gpu"},  {"--ops", "update"},
      {"--shapes", "4x2"},    {"--chunks", "100"},    {"--threads", "0"},
      {"--rounds", "0"},      {"--link-bytes", "1K"}, {"--largest-bytes", "0"}};
  for (const auto& [option, value] : wrong) {
    try {
      options_of({option, value});
      ADD_FAILURE() << option << " " << value;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(option + " " + value), std::string::npos) << e.what();
    }
  }
}

/// Three stripes of 4+2 for that operation, in ordinary memory.
Stripes make_stripes(const Operation& operation, std::size_t chunk_bytes, std::size_t gap = 0) {
  const std::size_t bytes = Stripes::bytes_needed(operation, chunk_bytes, 3, gap);
  return {operation, std::make_shared<const KnownStripe>(operation, chunk_bytes),
          std::make_shared<const Memory>(Residence::pageable, bytes), 3, gap};
}

class BenchStripes : public testing::TestWithParam<const char*> {};

TEST_P(BenchStripes, EveryWrongByteIsSeen) {
  const Operation operation = make_operation(GetParam(), gf::Technique::reed_sol_van, 4, 2, 2);
  for (const auto& [chunk_bytes, gap] : {std::pair{192, 0}, {160, 0}, {192, 1088}}) {
    const Stripes stripes = make_stripes(operation, static_cast<std::size_t>(chunk_bytes), gap);
    for (std::size_t s = 0; s < 3; ++s) {
      stripes.spoil(s);
      EXPECT_FALSE(stripes.right(s));
      ASSERT_EQ(run(*kernels::find_backend("reference"), stripes.job(s), operation.verb),
                kernels::Status::ok);
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

INSTANTIATE_TEST_SUITE_P(Ops, BenchStripes, testing::Values("encode", "decode", "update"),
                         [](const auto& info) { return std::string(info.param); });

/// Notes which stripes are coded by whom.
struct Noted {
  std::mutex mutex;
  std::set<std::size_t> stripes;
  std::atomic<unsigned> calls{0};
};

Contestant noting(Noted& noted, const std::string& name, unsigned threads, bool right) {
  return {.name = name,
          .verified_against = "",
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

/// A call that takes 2 ms of CPU time.
void spin(std::size_t) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  for (const double end = now() + 0.002; now() < end;) continue;
}

TEST(BenchMeasure, CallsAreTimedByBothClocks) {
  Workers workers(2);
  const Contestant contestant{
      .name = "spin", .verified_against = "", .threads = 2, .run = spin, .right = [](std::size_t) {
        return true;
      }};
  const auto result =
      measure(workers, {contestant}, {2, 1, 1}, {.rounds = 3, .sample_seconds = 0.01}).front();
  for (const Clock clock : {Clock::wall, Clock::cpu})
    for (const double seconds : call_seconds(result, 2, clock)) EXPECT_GE(seconds, 0.0019);
  EXPECT_DOUBLE_EQ(speed_ratio(result, result, Clock::cpu), 1);
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
