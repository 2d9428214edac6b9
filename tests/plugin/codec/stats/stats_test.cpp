// What is counted, by whom, for what, and which jobs are timed; and that a child of fork() counts for itself.
#include "plugin/codec/stats/stats.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <numeric>
#include <thread>

#include "plugin/codec/codec.hpp"
#include "support/files.hpp"
#include "tests/common/child.hpp"
#include "tests/common/fake_backend.hpp"
#include "tests/common/folder.hpp"
#include "tests/common/threads.hpp"
#include "tests/plugin/codec/routing/round.hpp"

namespace ec::test {
namespace {

using codec::Durations;
using codec::Event;
using codec::Operation;
using codec::Row;
using codec::Stats;
using kernels::Status;

std::uint64_t jobs_of(const Durations& d) {
  return std::accumulate(d.jobs.begin(), d.jobs.end(), std::uint64_t{0});
}

void finish(Stats& counts, std::uint64_t bytes, unsigned times = 1) {
  for (unsigned i = 0; i < times; ++i) {
    Stats::JobRecord job(counts, codec::this_thread(), Operation::encode, bytes);
    job.begins();
    job.finished(0);
  }
}

TEST(Stats, AddUpWhatManyThreadsCount) {
  Stats counts;
  constexpr unsigned all = codec::own_shards + 2 * codec::shared_shards + 5, jobs = 100'000;
  // More than there are shards, and all live at once.
  std::latch come(all);
  in_threads(all, [&](unsigned) {
    counts.happened(Event::plan_found, 3);
    come.arrive_and_wait();
    for (unsigned i = 0; i < jobs; ++i)
      Stats::JobRecord(counts, codec::this_thread(), Operation::decode, 10).finished(2);
    Stats::JobRecord(counts, codec::this_thread(), Operation::decode, 10).fell_back(1, Status::busy);
  });
  EXPECT_EQ(sum(counts.page()).all(2).calls, std::uint64_t{jobs} * all);
  EXPECT_EQ(sum(counts.page()).all(2).source_bytes, std::uint64_t{10} * jobs * all);
  EXPECT_EQ(sum(counts.page()).all(2).fell_back(), 0u);
  EXPECT_EQ(sum(counts.page()).all(1).calls, 0u);
  EXPECT_EQ(sum(counts.page()).all(1).fell_back(), all);
  EXPECT_EQ(sum(counts.page()).times(Event::plan_found), 3 * all);
  EXPECT_EQ(sum(counts.page()).times(Event::plan_solved), 0u);
}

TEST(Stats, KeepOperationsAndCausesApart) {
  Stats counts;
  for (const auto cause : {Status::unsupported, Status::busy, Status::fault, Status::hung}) {
    FakeBackend cuda("cuda", kernels::BackendKind::device, cause);
    const std::array<kernels::Backend*, 2> list{&cuda, &kernels::reference_backend()};
    const codec::Codec codec(gf::Technique::cauchy, 3, 2,
                             codec::Router(codec::BackendChoice::gpu, 0, list, counts));
    StripeSet stripes("cauchy", 3, 2, 1, 100, 1);
    const auto data = stripes.views<kernels::Source>(stripes.data_numbers());
    const auto coding = stripes.views<kernels::Target>(stripes.coding_numbers());
    const bool hangs = cause == Status::hung;
    EXPECT_EQ(codec.encode(data, coding, 100), hangs ? Status::hung : Status::ok);
    const auto plan = codec.code().plan({gf::ChunkSet{0, 1, 3}, gf::ChunkSet{2}});
    ASSERT_TRUE(plan);
    EXPECT_EQ(codec.decode(*plan, stripes.views<kernels::Source>(plan->sources),
                           stripes.views<kernels::Target>(plan->targets), 100),
              hangs ? Status::hung : Status::ok);
    EXPECT_EQ(codec.update(0, data[1], coding, 100), hangs ? Status::hung : Status::ok);
  }
  for (const auto operation : {Operation::encode, Operation::decode, Operation::update}) {
    const Row cuda = sum(counts.page()).row(0, operation);
    EXPECT_EQ(cuda.calls, 0u);
    EXPECT_EQ(cuda.fallbacks, (std::array<std::uint64_t, 4>{1, 1, 1, 1})) << name(operation);
    const Row reference = sum(counts.page()).row(1, operation);
    EXPECT_EQ(reference.calls, 3u) << name(operation);
    EXPECT_EQ(reference.source_bytes, operation == Operation::update ? 300u : 900u) << name(operation);
    EXPECT_EQ(reference.fallbacks, (std::array<std::uint64_t, 4>{})) << name(operation);
  }
  EXPECT_EQ(sum(counts.page()).all(0).fell_back(), 9u) << "what it did not take is no fall-back here";
}

TEST(Stats, LargeJobsAreTimedAllSmallOnesOneInAFewAndEnqueuedOnesNever) {
  Stats counts;
  // A thread's first job is timed.
  std::thread([&] {
    finish(counts, codec::timed_from_bytes, 10);
    finish(counts, codec::timed_from_bytes - 1, 1000);
    Stats::JobRecord(counts, codec::this_thread(), Operation::decode, codec::timed_from_bytes,
                     Stats::Timed::never)
        .finished(0);
    Stats::JobRecord job(counts, codec::this_thread(), Operation::update, codec::timed_from_bytes);
    job.begins();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    job.finished(4);
  }).join();
  const Row row = sum(counts.page()).row(0, Operation::encode);
  EXPECT_EQ(row.calls, 1010u);
  EXPECT_EQ(jobs_of(row.large), 10u);
  EXPECT_EQ(jobs_of(row.small), 1 + 999 / codec::small_jobs_a_timed_one);
  EXPECT_EQ(sum(counts.page()).row(0, Operation::decode).calls, 1u);
  EXPECT_EQ(jobs_of(sum(counts.page()).row(0, Operation::decode).large), 0u);

  const Durations took = sum(counts.page()).row(4, Operation::update).large;
  EXPECT_EQ(jobs_of(took), 1u);
  EXPECT_GE(took.nanoseconds, 3'000'000u);
  for (std::size_t i = 0; i < Durations::buckets; ++i)
    if (took.jobs[i] != 0) {
      EXPECT_LE(took.nanoseconds, Durations::bound(i));
      EXPECT_GT(took.nanoseconds, Durations::bound(i - 1)) << "a lower bucket holds it";
    }
}

TEST(Stats, PlansAreFoundOrSolved) {
  const auto& page = codec::stats().page();
  const auto found = sum(page).times(Event::plan_found), solved = sum(page).times(Event::plan_solved);
  const codec::Codec codec(gf::Technique::cauchy, 9, 4, codec::Router(codec::BackendChoice::cpu, 0));
  const gf::ErasureSignature signature{gf::ChunkSet::first(13) - gf::ChunkSet{2}, gf::ChunkSet{2}};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(codec.code().plan(signature));
  EXPECT_EQ(codec.code().plan({gf::ChunkSet{0}, gf::ChunkSet{1}}), nullptr) << "neither";
  EXPECT_EQ(sum(page).times(Event::plan_solved), solved + 1);
  EXPECT_EQ(sum(page).times(Event::plan_found), found + 4);
}

TEST(Stats, WhatTheRouterAsksIsNotReadFromThePage) {
  Stats counts;
  const Stats::OnDevice mark(counts);
  EXPECT_EQ(counts.page().jobs_on_device, 1u);
  counts.page().jobs_on_device = 1000;
  EXPECT_EQ(counts.on_device(), 1u);
}

/// The file of this process's page; -1 if there is none.
int page_file() {
  const auto wanted = std::string("/memfd:") + codec::stats_file_name + " (deleted)";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::filesystem::read_symlink(entry.path(), error) == wanted)
      return std::stoi(entry.path().filename());
  return -1;
}

bool encode() {
  StripeSet stripes("cauchy", 3, 2, 1, 100, 1);
  const codec::Codec codec(gf::Technique::cauchy, 3, 2, codec::Router(codec::BackendChoice::reference, 0));
  return encode_is_right(codec, stripes);
}

/// Whether a child of fork() ends well that does this.
template <class Body>
bool right_in_child(Body&& body) {
  return in_child([&] { return body() ? 0 : 1; }) == 0;
}

std::uint64_t calls() { return sum(codec::stats().page()).all(kernels::backends().size() - 1).calls; }

bool counts_anew() {
  return calls() == 0 && codec::stats().on_device() == 0 && codec::stats().page().pid == getpid() &&
         encode() && calls() == 1;
}

TEST(StatsPage, NobodyElseCanWriteIt) {
  ASSERT_TRUE(encode());
  const auto path = "/proc/self/fd/" + std::to_string(page_file());
  const support::Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) GTEST_SKIP() << "not even opened";
  EXPECT_LT(pwrite(file.get(), "x", 1, 0), 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), MAP_FAILED);
}

/// Where a program has taken what the stats need, a child counts all the same and touches nothing of it.
TEST(StatsPage, AChildCountsWhateverItsParentDidToDescriptors) {
  ASSERT_TRUE(encode());
  const auto before = calls();
  const Stats::OnDevice mark(codec::stats());
  const auto in_grandchild = [](auto&& take, auto&& holds) {
    EXPECT_TRUE(
        right_in_child([&] { return take() && right_in_child([&] { return counts_anew() && holds(); }); }));
  };
  in_grandchild([] { return true; }, [] { return page_file() > 2; });
  const Folder folder;
  const int number = page_file();
  const support::Descriptor file(open((folder / "file").c_str(), O_RDWR | O_CREAT, 0600));
  in_grandchild([&] { return dup2(file.get(), number) == number; },
                [&] {
                  struct stat of_file = {}, there = {};
                  return fstat(file.get(), &of_file) == 0 && fstat(number, &there) == 0 &&
                         there.st_ino == of_file.st_ino && there.st_size == 0;
                });
  in_grandchild([] { return close(0) + close(1) + close(2) == 0; }, [] { return page_file() > 2; });
  in_grandchild(
      [] {
        const struct rlimit none { 1000, 1000 };
        return setrlimit(RLIMIT_FSIZE, &none) == 0;
      },
      [] { return page_file() < 0 && right_in_child([] { return counts_anew(); }); });
  EXPECT_EQ(calls(), before);
}

TEST(StatsPage, ChildrenCountForThemselvesWhileThreadsOfTheParentCount) {
  finish(codec::stats(), 100, 100);  // what is set up once: a child could inherit it half done
  std::atomic<bool> done{false};
  const auto threads = threads_of(4, [&](unsigned) {
    while (!done) finish(codec::stats(), 100);
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(right_in_child([] {
      // Without an allocation: AddressSanitizer's allocator may be locked by a thread that the child has not.
      const auto& page = codec::stats().page();
      const bool fresh = sum(page).row(0, Operation::encode).calls == 0 && page.pid == getpid();
      finish(codec::stats(), 100, 3);
      return fresh && sum(page).row(0, Operation::encode).calls == 3;
    }));
  }
  done = true;
  EXPECT_EQ(codec::stats().page().pid, getpid());
}

}  // namespace
}  // namespace ec::test
