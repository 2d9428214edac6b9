// Who gets a job, by policy, place and size, and by what calls took; and who finishes it when a back end does
// not.
#include "plugin/codec/routing/router.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/common/conformance.hpp"
#include "tests/common/fake_backend.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::CallTimes;
using codec::Router;
using codec::Stats;
using kernels::BackendKind;

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

  kernels::Program program{to_matrix({{1, 2}})};
  oracle::Bytes first, second, out;
  std::array<kernels::Source, 2> sources;
  kernels::Target target;
  kernels::Job job;
};

/// Fakes in the order of a real build, stats and times of their own.
struct Fakes {
  Fakes(Status device, Status second, Status last)
      : cuda("cuda", BackendKind::device, device),
        isal("isal", BackendKind::judge, second),
        reference("reference", BackendKind::floor, last),
        list{&cuda, &isal, &reference} {}
  Router router(BackendChoice choice = BackendChoice::gpu, std::optional<std::size_t> threshold = 0) {
    return Router(choice, threshold, list, counts, codec::no_validation(), times);
  }

  FakeBackend cuda, isal, reference;
  std::array<kernels::Backend*, 3> list;
  Stats counts;
  CallTimes times;
};

/// A build may have any kernels of its own, under any name, before ISA-L.
TEST(RouterPolicy, AForcedBackEndCodesWhateverStandsInTheList) {
  using enum BackendChoice;
  for (const auto choice : every_choice) {
    FakeBackend cuda("cuda", BackendKind::device, Status::ok), x86("x86", BackendKind::coder, Status::ok),
        aarch64("aarch64", BackendKind::coder, Status::ok), isal("isal", BackendKind::judge, Status::ok),
        reference("reference", BackendKind::floor, Status::ok);
    const std::array<kernels::Backend*, 5> list{&cuda, &x86, &aarch64, &isal, &reference};
    Stats counts;
    const SmallJob small(Residence::pageable, Residence::pageable);
    EXPECT_EQ(Router(choice, 0, list, counts).transform(small.job), Status::ok);
    const FakeBackend& right = choice == gpu                        ? cuda
                               : choice == BackendChoice::isal      ? isal
                               : choice == BackendChoice::reference ? reference
                                                                    : x86;
    for (const FakeBackend* each : {&cuda, &x86, &aarch64, &isal, &reference})
      EXPECT_EQ(each->calls(), each == &right ? 1u : 0u) << codec::name(choice) << " by " << each->name();
  }
}

TEST(RouterPolicy, TheDeviceByChoiceResidenceAndSize) {
  using enum BackendChoice;
  using enum Residence;
  constexpr std::optional<std::size_t> none;
  const struct {
    BackendChoice choice;
    std::optional<std::size_t> threshold;  // The job has 200 source bytes.
    Residence nearest_host, nearest_device;
    bool device;
  } rows[] = {
      {automatic, 0, pageable, pageable, false},
      {automatic, 0, pageable, pinned, false},
      {automatic, 0, pinned, pinned, true},
      {automatic, 200, pinned, pinned, true},
      {automatic, 201, pinned, pinned, false},
      {automatic, 201, pinned, Residence::device, true},
      {automatic, none, pinned, pinned, false},
      {automatic, none, pageable, Residence::device, true},
      {gpu, none, pageable, pageable, true},
      {gpu, 201, pinned, pinned, true},
      {cpu, none, pageable, pageable, false},
      {cpu, 0, pinned, pinned, false},
      {x86, 0, pinned, pinned, false},
      {isal, 0, pinned, pinned, false},
      {reference, none, pinned, pinned, false},
      {cpu, 0, pinned, Residence::device, true},
      {reference, none, pinned, Residence::device, true},
  };
  for (const auto& row : rows)
    for (const bool swap : {false, true}) {
      SCOPED_TRACE(testing::Message() << "row " << &row - rows);
      Fakes fakes(Status::ok, Status::ok, Status::ok);
      const SmallJob small(swap ? row.nearest_device : row.nearest_host,
                           swap ? row.nearest_host : row.nearest_device);
      // What a fake really makes of it, in ordinary memory, does not matter.
      static_cast<void>(fakes.router(row.choice, row.threshold).transform(small.job));
      EXPECT_EQ(fakes.cuda.calls(), row.device ? 1u : 0u);
    }
}

/// As long as nothing is known of either, by the bytes of all stripes together.
TEST(RouterPolicy, PinnedChunksGoToTheDeviceFromASizeOn) {
  const auto on_device = [](std::size_t bytes, std::size_t stripes) {
    Fakes fakes(Status::ok, Status::ok, Status::ok);
    const SmallJob one(Residence::pinned, Residence::pinned, bytes);
    const std::vector<kernels::Job> jobs(stripes, one.job);
    EXPECT_EQ(fakes.router(BackendChoice::automatic, std::nullopt).transform_all(jobs), Status::ok);
    return fakes.cuda.calls() != 0;
  };
  constexpr std::size_t half = Router::first_threshold_bytes / 2;
  EXPECT_FALSE(on_device(half - 1, 1));
  EXPECT_TRUE(on_device(half, 1));
  EXPECT_FALSE(on_device(half / 8, 7));
  EXPECT_TRUE(on_device(half / 8, 8));
}

// --- Whole calls.

TEST(RouterCalls, AreInFlightWhileTheDeviceHasThemAndNoLonger) {
  for (const Status answer : {Status::ok, Status::busy, Status::fault, Status::unsupported, Status::hung}) {
    Fakes fakes(answer, Status::ok, Status::ok);
    const SmallJob one(Residence::pinned, Residence::pinned);
    unsigned seen = 0;
    fakes.cuda.meanwhile = [&] { seen += fakes.counts.on_device(); };
    EXPECT_EQ(fakes.router().transform(one.job), answer == Status::hung ? Status::hung : Status::ok);
    static_cast<void>(fakes.router().transform(one.job, codec::Operation::update));
    static_cast<void>(fakes.router().transform_all({&one.job, 1}));
    unsigned long long difference = 0;
    static_cast<void>(fakes.router().compare({&one.job, 1}, &difference, std::nullopt));
    // What is not offered to the device is not its work.
    EXPECT_EQ(fakes.router(BackendChoice::cpu).transform(one.job), Status::ok);
    EXPECT_EQ(seen, 4u) << name(answer);
    EXPECT_EQ(fakes.counts.on_device(), 0u) << name(answer);
  }
}

/// What the three back ends answer, how many of them are asked, what the caller is told, and what is counted.
TEST(RouterFallback, TheFirstThatCanMakesTheBytesAndTheLastTroubleIsTheAnswer) {
  using enum Status;
  const struct {
    std::array<Status, 3> answers;
    std::size_t asked;
    Status result;
  } rows[] = {{{ok, ok, ok}, 1, ok},
              {{busy, ok, ok}, 2, ok},
              {{fault, ok, ok}, 2, ok},
              {{busy, busy, ok}, 3, ok},
              {{fault, fault, ok}, 3, ok},
              {{unsupported, unsupported, ok}, 3, ok},
              {{hung, ok, ok}, 1, hung},  // it may still write
              {{busy, unsupported, unsupported}, 3, busy},
              {{fault, unsupported, unsupported}, 3, fault},
              {{unsupported, unsupported, unsupported}, 3, unsupported}};
  for (const auto& row : rows)
    for (const auto operation : {codec::Operation::encode, codec::Operation::update}) {
      SCOPED_TRACE(testing::Message() << "row " << &row - rows << ", " << name(operation));
      Fakes fakes(row.answers[0], row.answers[1], row.answers[2]);
      SmallJob small(Residence::pinned, Residence::pinned);
      auto expected = small.expected();
      if (operation == codec::Operation::update)
        for (auto& byte : expected) byte ^= 0x11;
      EXPECT_EQ(fakes.router().transform(small.job, operation), row.result);
      if (row.result == ok) {
        EXPECT_EQ(small.out, expected);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        const bool asked = i < row.asked, finished = asked && row.answers[i] == ok;
        const codec::Row count = codec::sum(fakes.counts.page()).all(i);
        EXPECT_EQ(static_cast<FakeBackend*>(fakes.list[i])->calls(), asked ? 1u : 0u) << i;
        EXPECT_EQ(count.calls, finished ? 1u : 0u) << i;
        EXPECT_EQ(count.source_bytes, finished ? 200u : 0u) << i;
        EXPECT_EQ(count.fell_back(), asked && !finished && row.answers[i] != unsupported ? 1u : 0u) << i;
      }
    }
}

TEST(RouterFallback, RealCpuBackEndsRefuseDeviceMemory) {
  for (auto* backend : kernels::backends()) {
    if (backend->kind() == BackendKind::device) continue;
    SmallJob small(Residence::pageable, Residence::device);
    EXPECT_EQ(backend->transform(small.job), Status::unsupported);
    EXPECT_EQ(backend->accumulate(small.job), Status::unsupported);
    EXPECT_EQ(small.out, oracle::Bytes(100, 0x11));
  }
}

}  // namespace
}  // namespace ec::test
