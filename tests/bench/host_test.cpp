// The arithmetic of `ec_bench host`: its cases, its check of bytes, its summary of the router.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <stdexcept>
#include <tuple>

#include "bench/common/options.hpp"
#include "bench/host/host_coder.hpp"
#include "bench/host/host_crew.hpp"
#include "bench/host/host_options.hpp"
#include "bench/host/host_report.hpp"
#include "bench/host/host_stripes.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;

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
  first.rounds = {{100, 0.5}, {300, 0.5}, {200, 0.5}};
  HostRow second = row("auto", 0);
  second.ran = {{"x86", 4}};
  second.rounds = {{100, 0.1}, {100, 0.5}, {200, 0.3}};
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

bool has(const std::vector<HostCase>& cases, const std::string& op, unsigned k, std::size_t chunk,
         Residence residence, const HostEntrant& entrant) {
  return std::ranges::any_of(cases, [&](const HostCase& c) {
    return c.op == op && c.k == k && c.chunk_bytes == chunk && c.residence == residence &&
           std::ranges::find(c.entrants, entrant) != c.entrants.end();
  });
}

TEST(BenchHostOptions, TheDefaultsHoldThePointsOfTheBars) {
  const auto cases = parse_host_options({}).cases;
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
  const auto cases = parse_host_options({"--sections", "pinned", "--shapes", "4+1", "--chunks", "4K"}).cases;
  EXPECT_EQ(cases.size(), 2u);  // encode, decode-1
}

TEST(BenchHostOptions, WhatIsNotAllowedIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"--sections", "none"}, {"--backends", "gpu"},  {"--ops", "update"},
      {"--shapes", "4x2"},    {"--chunks", "100"},    {"--threads", "0"},
      {"--rounds", "0"},      {"--link-bytes", "1K"}, {"--largest-bytes", "0"}};
  for (const auto& [option, value] : wrong) {
    try {
      parse_host_options({option, value});
      ADD_FAILURE() << option << " " << value;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(option + " " + value), std::string::npos) << e.what();
    }
  }
}

class BenchHostStripes : public testing::TestWithParam<const char*> {};

TEST_P(BenchHostStripes, EveryWrongByteIsSeen) {
  const HostCase c{.op = GetParam(), .k = 4, .m = 2, .chunk_bytes = 192, .residence = Residence::pageable};
  const HostCoder coder(c, "reference");
  const Twin twin(coder.encode_program(), c.chunk_bytes);
  const Arena arena(c.residence, 3 * c.stripe_bytes());
  const HostStripes stripes(c, 3, 1, coder.reads(), twin, arena);
  stripes.spoil(3, 1);
  EXPECT_FALSE(stripes.right(3, 1));
  const auto before = coder.calls();
  for (std::size_t s = 0; s < 3; ++s) coder.run(stripes, s);
  EXPECT_TRUE(stripes.right(3, 1));
  const auto ran = coder.ran_since(before);
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran[0].backend, "reference");
  EXPECT_EQ(ran[0].calls, 3u);
  for (std::size_t s = 0; s < 3; ++s)
    for (const auto& target : stripes.targets(s))
      for (const std::size_t at : {std::size_t{0}, c.chunk_bytes / 2, c.chunk_bytes - 1}) {
        target.data[at] ^= 1;
        EXPECT_FALSE(stripes.right(3, 1));
        target.data[at] ^= 1;
      }
  // No stripe passes for another.
  std::copy_n(stripes.targets(0)[0].data, c.chunk_bytes, stripes.targets(1)[0].data);
  EXPECT_FALSE(stripes.right(3, 1));
}

TEST(BenchHostTurns, EveryThreadHasStripesOfItsOwn) {
  const HostCase c{.op = "encode", .k = 4, .m = 2, .chunk_bytes = 64, .residence = Residence::pageable};
  const HostCoder coder(c, "reference");
  const Twin twin(coder.encode_program(), c.chunk_bytes);
  const Arena arena(c.residence, 6 * c.stripe_bytes());
  const HostStripes stripes(c, 3, 2, coder.reads(), twin, arena);
  std::set<std::size_t> seen;
  for (std::size_t thread = 0; thread < 3; ++thread) {
    EXPECT_EQ(stripes.at_turn(thread, 0), thread);  // those of the first turn come first
    for (std::size_t turn = 0; turn < 2; ++turn) {
      seen.insert(stripes.at_turn(thread, turn));
      EXPECT_EQ(stripes.at_turn(thread, turn), stripes.at_turn(thread, turn + 2));
    }
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_EQ(*seen.rbegin(), 5u);

  // Those of two threads, in both of their turns, and no others.
  stripes.spoil(3, 2);
  for (const std::size_t stripe : {0u, 1u, 3u, 4u}) {
    EXPECT_FALSE(stripes.right(2, 2));
    coder.run(stripes, stripe);
  }
  EXPECT_TRUE(stripes.right(2, 2));
  EXPECT_FALSE(stripes.right(3, 1));
}

INSTANTIATE_TEST_SUITE_P(Ops, BenchHostStripes, testing::Values("encode", "decode-1", "decode-m"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(BenchHostCrew, RunsEachOnceAndCountsTheTimeOfAll) {
  Crew crew(3);
  for (const unsigned threads : {3u, 1u, 2u}) {
    std::vector<unsigned> runs(3);
    const auto spin_until = [](double seconds) {
      timespec t{};
      do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      while (static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec) < seconds);
    };
    const auto sample = crew.run(threads, [&](unsigned t) {
      ++runs[t];
      timespec begun{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
      spin_until(static_cast<double>(begun.tv_sec) + 1e-9 * static_cast<double>(begun.tv_nsec) + 0.01);
    });
    for (unsigned t = 0; t < 3; ++t) EXPECT_EQ(runs[t], t < threads ? 1u : 0u);
    EXPECT_GE(sample.seconds, 0.009);
    EXPECT_GE(sample.cpu_seconds, 0.009 * threads);
  }
  EXPECT_THROW(crew.run(2,
                        [](unsigned t) {
                          if (t == 1) throw std::runtime_error("no");
                        }),
               std::runtime_error);
  EXPECT_NO_THROW(crew.run(2, [](unsigned) {}));
}

}  // namespace
}  // namespace ec::bench
