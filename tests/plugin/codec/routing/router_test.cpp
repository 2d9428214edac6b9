// Who gets a job, and who finishes it when a back end does not.
#include "plugin/codec/routing/router.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "tests/common/oracle.hpp"
#include "tests/plugin/codec/routing/fake_backend.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::Counters;
using codec::Router;
using kernels::Residence;
using kernels::Status;

constexpr std::array every_choice{BackendChoice::automatic, BackendChoice::cpu,  BackendChoice::gpu,
                                  BackendChoice::x86,       BackendChoice::isal, BackendChoice::reference};

/// A job of two sources and one target: d0 + 2 d1. Not device memory, whatever its residence says.
struct SmallJob {
  SmallJob(Residence sources_lie, Residence target_lies, std::size_t bytes = 100)
      : first(bytes, 0x53),
        second(bytes, 0xca),
        out(bytes, 0x11),
        sources{{{first.data(), sources_lie}, {second.data(), sources_lie}}},
        target{out.data(), target_lies},
        job{&program, sources, {&target, 1}, bytes} {}
  oracle::Bytes expected() const { return oracle::apply({{1, 2}}, {first, second})[0]; }

  static gf::Matrix matrix() {
    gf::Matrix m(1, 2);
    m(0, 0) = 1;
    m(0, 1) = 2;
    return m;
  }
  kernels::Program program{matrix()};
  oracle::Bytes first, second, out;
  std::array<kernels::Source, 2> sources;
  kernels::Target target;
  kernels::Job job;
};

std::set<std::string> admitted(BackendChoice choice, std::size_t threshold, Residence sources,
                               Residence target) {
  const SmallJob small(sources, target);
  const Router router(choice, threshold);
  std::set<std::string> names;
  for (const auto* name : {"cuda", "x86", "isal", "reference"}) {
    const FakeBackend backend(name, Status::ok);
    if (router.admits(backend, small.job)) names.insert(name);
  }
  return names;
}

TEST(RouterPolicy, CpuBackEndsDependOnTheChoiceAlone) {
  for (const auto sources : {Residence::pageable, Residence::pinned, Residence::device})
    for (const auto choice : every_choice) {
      const auto names = admitted(choice, 0, sources, Residence::pinned);
      EXPECT_TRUE(names.contains("reference"));
      EXPECT_EQ(names.contains("isal"), choice != BackendChoice::reference) << codec::name(choice);
      EXPECT_EQ(names.contains("x86"), choice != BackendChoice::reference && choice != BackendChoice::isal)
          << codec::name(choice);
    }
}

TEST(RouterPolicy, TheDeviceByChoiceResidenceAndSize) {
  struct Row {
    BackendChoice choice;
    std::size_t threshold;  // The job has 200 source bytes.
    Residence sources, target;
    bool device;
  };
  using enum BackendChoice;
  using enum Residence;
  const Row rows[] = {
      {automatic, 0, pageable, pageable, false},
      {automatic, 0, pinned, pageable, false},
      {automatic, 0, pageable, pinned, false},
      {automatic, 0, pinned, pinned, true},
      {automatic, 200, pinned, pinned, true},
      {automatic, 201, pinned, pinned, false},
      {automatic, 201, Residence::device, pinned, true},
      {automatic, 201, pageable, Residence::device, true},
      {gpu, 201, pageable, pageable, true},
      {gpu, 201, pinned, pinned, true},
      {cpu, 0, pageable, pageable, false},
      {cpu, 0, pinned, pinned, false},
      {x86, 0, pinned, pinned, false},
      {isal, 0, pinned, pinned, false},
      {reference, 0, pinned, pinned, false},
      {cpu, 0, Residence::device, pinned, true},
      {reference, 0, pinned, Residence::device, true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(admitted(row.choice, row.threshold, row.sources, row.target).contains("cuda"), row.device)
        << codec::name(row.choice) << ", threshold " << row.threshold << ", " << kernels::name(row.sources)
        << " to " << kernels::name(row.target);
}

/// Three fakes in the order of a real build, and counters of their own.
struct Fakes {
  Fakes(Status device, Status second, Status last)
      : cuda("cuda", device),
        isal("isal", second),
        reference("reference", last),
        list{&cuda, &isal, &reference} {}
  Router router(BackendChoice choice = BackendChoice::gpu) {
    return Router(choice, 0, codec::default_costs(), list, counts);
  }

  FakeBackend cuda, isal, reference;
  std::array<kernels::Backend*, 3> list;
  Counters counts;
};

void expect_counts(const Counters& counts, std::size_t row, std::uint64_t calls, std::uint64_t source_bytes,
                   std::uint64_t fallbacks) {
  const auto read = counts.read(row);
  EXPECT_EQ(read.calls, calls) << "row " << row;
  EXPECT_EQ(read.source_bytes, source_bytes) << "row " << row;
  EXPECT_EQ(read.fallbacks, fallbacks) << "row " << row;
}

TEST(RouterFallback, TheFirstThatFinishesIsTheLastAsked) {
  Fakes fakes(Status::ok, Status::ok, Status::ok);
  SmallJob small(Residence::pageable, Residence::pageable);
  EXPECT_EQ(fakes.router().transform(small.job), Status::ok);
  EXPECT_EQ(small.out, small.expected());
  EXPECT_EQ(fakes.isal.calls(), 0u);
  expect_counts(fakes.counts, 0, 1, 200, 0);
  expect_counts(fakes.counts, 1, 0, 0, 0);
}

TEST(RouterFallback, AfterBusyAndFaultTheNextOneFinishesTheJob) {
  for (const auto trouble : {Status::busy, Status::fault}) {
    Fakes fakes(trouble, Status::ok, Status::ok);
    SmallJob small(Residence::pageable, Residence::pageable);
    EXPECT_EQ(fakes.router().transform(small.job), Status::ok);
    EXPECT_EQ(small.out, small.expected()) << name(trouble);
    expect_counts(fakes.counts, 0, 0, 0, 1);
    expect_counts(fakes.counts, 1, 1, 200, 0);
    EXPECT_EQ(fakes.reference.calls(), 0u);
  }
}

TEST(RouterFallback, AccumulateIsRedoneOnUntouchedTargets) {
  for (const auto trouble : {Status::busy, Status::fault}) {
    Fakes fakes(trouble, trouble, Status::ok);
    SmallJob small(Residence::pageable, Residence::pageable);
    auto expected = small.expected();
    for (auto& byte : expected) byte ^= 0x11;
    EXPECT_EQ(fakes.router().accumulate(small.job), Status::ok);
    EXPECT_EQ(small.out, expected);
    expect_counts(fakes.counts, 0, 0, 0, 1);
    expect_counts(fakes.counts, 1, 0, 0, 1);
    expect_counts(fakes.counts, 2, 1, 200, 0);
  }
}

TEST(RouterFallback, UnsupportedIsPassedOnUncounted) {
  Fakes fakes(Status::unsupported, Status::unsupported, Status::ok);
  SmallJob small(Residence::pageable, Residence::pageable);
  EXPECT_EQ(fakes.router().transform(small.job), Status::ok);
  EXPECT_EQ(small.out, small.expected());
  expect_counts(fakes.counts, 0, 0, 0, 0);
  expect_counts(fakes.counts, 1, 0, 0, 0);
  expect_counts(fakes.counts, 2, 1, 200, 0);
}

TEST(RouterFallback, AfterHungNobodyElseWrites) {
  Fakes fakes(Status::hung, Status::ok, Status::ok);
  SmallJob small(Residence::pinned, Residence::pinned);
  EXPECT_EQ(fakes.router().transform(small.job), Status::hung);
  EXPECT_EQ(fakes.router().accumulate(small.job), Status::hung);
  EXPECT_EQ(fakes.isal.calls(), 0u);
  EXPECT_EQ(fakes.reference.calls(), 0u);
  expect_counts(fakes.counts, 0, 0, 0, 2);
}

TEST(RouterFallback, WhenNobodyCanTheLastTroubleIsTheAnswer) {
  SmallJob small(Residence::pageable, Residence::pageable);
  for (const auto trouble : {Status::busy, Status::fault}) {
    Fakes fakes(trouble, Status::unsupported, Status::unsupported);
    EXPECT_EQ(fakes.router().transform(small.job), trouble);
  }
  Fakes none(Status::unsupported, Status::unsupported, Status::unsupported);
  EXPECT_EQ(none.router().transform(small.job), Status::unsupported);
}

TEST(RouterFallback, AChoiceNeverReachesABackEndAboveIt) {
  SmallJob small(Residence::pinned, Residence::pinned);
  Fakes fakes(Status::ok, Status::ok, Status::ok);
  EXPECT_EQ(fakes.router(BackendChoice::cpu).transform(small.job), Status::ok);
  EXPECT_EQ(fakes.router(BackendChoice::isal).transform(small.job), Status::ok);
  EXPECT_EQ(fakes.router(BackendChoice::reference).transform(small.job), Status::ok);
  EXPECT_EQ(fakes.cuda.calls(), 0u);
  EXPECT_EQ(fakes.isal.calls(), 2u);
  EXPECT_EQ(fakes.reference.calls(), 1u);
}

TEST(RouterFallback, RealCpuBackEndsRefuseDeviceMemory) {
  for (auto* backend : kernels::backends()) {
    if (backend->name() == "cuda") continue;
    SmallJob small(Residence::pageable, Residence::device);
    EXPECT_EQ(backend->transform(small.job), Status::unsupported);
    EXPECT_EQ(backend->accumulate(small.job), Status::unsupported);
    EXPECT_EQ(small.out, oracle::Bytes(100, 0x11));
  }
}

}  // namespace
}  // namespace ec::test
