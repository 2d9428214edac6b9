// Who gets a job, by policy, by predicted cost and with work in hand; and who finishes it when a back end
// does not.
#include "plugin/codec/routing/router.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/common/oracle.hpp"
#include "tests/plugin/codec/routing/fake_backend.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::CostTable;
using codec::ResidenceRange;
using codec::Router;
using codec::Stats;
using codec::Work;
using kernels::Residence;
using kernels::Status;
using Reason = codec::Decision::Reason;

constexpr std::array every_choice{BackendChoice::automatic, BackendChoice::cpu,  BackendChoice::gpu,
                                  BackendChoice::x86,       BackendChoice::isal, BackendChoice::reference};
constexpr ResidenceRange all_pinned{Residence::pinned, Residence::pinned};

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

/// Three fakes in the order of a real build, stats and a load of their own.
struct Fakes {
  Fakes(Status device, Status second, Status last)
      : cuda("cuda", device),
        isal("isal", second),
        reference("reference", last),
        list{&cuda, &isal, &reference} {}
  /// threshold: nothing for what `table` predicts.
  Router router(BackendChoice choice = BackendChoice::gpu, std::optional<std::size_t> threshold = 0) {
    new (&load) codec::DeviceLoad;  // fakes take no time, of which nothing is to be learned
    return Router(choice, threshold, table, list, counts, codec::no_validation(), load);
  }
  void predict(codec::Rates device, codec::Rates cpu) {
    table.pinned = device;
    table.cpu.fill(cpu);
  }

  FakeBackend cuda, isal, reference;
  std::array<kernels::Backend*, 3> list;
  Stats counts;
  codec::DeviceLoad load;
  CostTable table = codec::default_costs();
};

TEST(RouterPolicy, CpuBackEndsDependOnTheChoiceAlone) {
  using enum BackendChoice;
  for (const auto choice : every_choice) {
    const Router router(choice, 0);
    EXPECT_TRUE(router.may_code("cuda") && router.may_code("reference"));
    EXPECT_EQ(router.may_code("isal"), choice != reference) << codec::name(choice);
    EXPECT_EQ(router.may_code("x86"), choice != reference && choice != isal) << codec::name(choice);
  }
}

/// What no prediction decides, by tables that would send everything one way or the other.
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
    for (const bool swap : {false, true})
      for (const double device_us : {0.0, 1e9}) {
        SCOPED_TRACE(testing::Message() << "row " << &row - rows << ", " << device_us << " us");
        Fakes fakes(Status::ok, Status::ok, Status::ok);
        fakes.predict({device_us, 0, 0, 0, 0}, {1, 0, 0, 0, 0});
        fakes.table.pageable = codec::Rates{device_us, 0, 0, 0, 0};
        const SmallJob small(swap ? row.nearest_device : row.nearest_host,
                             swap ? row.nearest_host : row.nearest_device);
        const Router router = fakes.router(row.choice, row.threshold);
        // What a fake really makes of it, in ordinary memory, does not matter.
        static_cast<void>(router.transform(small.job));
        EXPECT_EQ(fakes.cuda.calls(), row.device ? 1u : 0u);
        const auto said = router.decide({2, 1, 100}, {row.nearest_host, row.nearest_device}, 1000);
        EXPECT_EQ(said.device, row.device);
        EXPECT_NE(said.reason, Reason::predicted_faster);
      }
}

// --- By predicted cost.

/// Calls visit(work) over shapes, chunks from 1 byte to 256 MiB, and a few counts of stripes.
template <class Visit>
void over_the_grid(Visit&& visit) {
  for (const auto& [k, m] : {std::pair{4u, 2u}, {8u, 3u}, {10u, 4u}, {32u, 8u}, {1u, 3u}})
    for (std::uint64_t bytes = 1; bytes <= 256u << 20; bytes *= 2)
      for (std::uint64_t stripes : {1u, 16u, 4096u})
        for (bool accumulate : {false, true}) visit(Work{k, m, bytes, stripes, accumulate});
}

TEST(RouterCosts, PinnedChunksGoToWhoIsPredictedFasterAndLessTheLongerTheQueue) {
  const Router router(BackendChoice::automatic, std::nullopt);
  over_the_grid([&](const Work& work) {
    bool taken = true;
    for (unsigned jobs = 0; jobs < 40; ++jobs) {
      const auto decision = router.decide(work, all_pinned, jobs);
      EXPECT_EQ(decision.reason, Reason::predicted_faster);
      EXPECT_EQ(decision.device_us, *device_us(codec::default_costs(), work, Residence::pinned, jobs));
      EXPECT_EQ(decision.cpu_us, cpu_us(codec::default_costs(), work));
      EXPECT_EQ(decision.device, decision.device_us < codec::DeviceLoad::clear_gain * decision.cpu_us);
      EXPECT_LE(decision.device, taken);
      taken = decision.device;
    }
  });
  EXPECT_TRUE(router.decide({8, 3, 1 << 20}, all_pinned, 0).device);
  EXPECT_FALSE(router.decide({8, 3, 1 << 20}, all_pinned, 16).device);
}

TEST(RouterCosts, OnceTheDeviceTakesASizeItTakesEveryLargerOne) {
  const Router router(BackendChoice::automatic, std::nullopt);
  for (const auto& [k, m] : {std::pair{4u, 2u}, {8u, 3u}, {10u, 4u}, {32u, 8u}}) {
    bool taken = false;
    for (std::uint64_t bytes = 64; bytes <= 256u << 20; bytes += bytes / 16 + 1) {
      const bool device = router.decide({k, m, bytes}, all_pinned, 0).device;
      EXPECT_GE(device, taken) << k << "+" << m << ", " << bytes;
      taken = device;
    }
    EXPECT_FALSE(router.decide({k, m, 4096}, all_pinned, 0).device) << k << "+" << m;
    EXPECT_TRUE(router.decide({k, m, 1 << 20}, all_pinned, 0).device) << k << "+" << m;
  }
}

TEST(RouterCosts, PageableChunksStayUnlessTheTableHasCostsForThem) {
  constexpr ResidenceRange pageable{Residence::pageable, Residence::pinned};
  const Router builtin(BackendChoice::automatic, std::nullopt);
  over_the_grid([&](const Work& work) {
    const auto decision = builtin.decide(work, pageable, 0);
    EXPECT_FALSE(decision.device);
    EXPECT_EQ(decision.reason, Reason::pageable_stays);
  });
  CostTable table = codec::default_costs();
  table.pageable = codec::Rates{100, 0, 1, 1, 0};
  const Router router(BackendChoice::automatic, std::nullopt, table);
  EXPECT_FALSE(router.decide({32, 8, 4096}, pageable, 0).device);
  EXPECT_TRUE(router.decide({32, 8, 1 << 20}, pageable, 0).device);
  EXPECT_EQ(router.decide({32, 8, 1 << 20}, pageable, 0).reason, Reason::predicted_faster);
  // A threshold is for pinned chunks.
  EXPECT_FALSE(Router(BackendChoice::automatic, 0, table).decide({32, 8, 1 << 20}, pageable, 0).device);
}

TEST(RouterCosts, AThresholdReplacesTheComparison) {
  CostTable dear = codec::default_costs();
  dear.pinned = {1e9, 0, 1e9, 1e9, 0};
  const Router router(BackendChoice::automatic, 8 << 20, dear);
  EXPECT_FALSE(router.decide({8, 3, (1 << 20) - 1}, all_pinned, 0).device);
  EXPECT_TRUE(router.decide({8, 3, 1 << 20}, all_pinned, 1000).device);
  EXPECT_TRUE(router.decide({8, 3, 1 << 10, 1 << 10}, all_pinned, 0).device);
  EXPECT_EQ(router.decide({8, 3, 1}, all_pinned, 0).reason, Reason::threshold);
}

// --- Whole calls.

TEST(RouterCalls, AreInFlightWhileTheDeviceHasThemAndNoLonger) {
  for (const Status answer : {Status::ok, Status::busy, Status::fault, Status::unsupported, Status::hung}) {
    Fakes fakes(answer, Status::ok, Status::ok);
    const OneByte one;
    unsigned seen = 0;
    fakes.cuda.meanwhile = [&] { seen += fakes.counts.on_device(); };
    EXPECT_EQ(fakes.router().transform(one.job), answer == Status::hung ? Status::hung : Status::ok);
    static_cast<void>(fakes.router().accumulate(one.job));
    static_cast<void>(fakes.router().transform_all({&one.job, 1}));
    // What is not offered to the device is not its work.
    EXPECT_EQ(fakes.router(BackendChoice::cpu).transform(one.job), Status::ok);
    EXPECT_EQ(seen, 3u) << name(answer);
    EXPECT_EQ(fakes.counts.on_device(), 0u) << name(answer);
  }
}

/// The device is busy with calls of other threads: 20 us against three quarters of 30, then 30.
TEST(RouterCalls, WorkInHandSendsTheNextCallToTheCpu) {
  for (const unsigned others : {1u, 2u}) {
    Fakes fakes(Status::ok, Status::ok, Status::ok);
    fakes.predict({0, 0, 1e7, 0, 0}, {30, 0, 0, 0, 0});  // 10 us for the byte
    std::vector<std::unique_ptr<Stats::OnDevice>> in_flight;
    while (in_flight.size() < others) in_flight.push_back(std::make_unique<Stats::OnDevice>(fakes.counts));
    const OneByte one;
    EXPECT_EQ(fakes.router(BackendChoice::automatic, std::nullopt).transform(one.job), Status::ok);
    EXPECT_EQ(fakes.cuda.calls(), others == 1 ? 1u : 0u);
  }
}

/// Stripes and verb reach the model.
TEST(RouterCalls, ManyStripesAndAccumulateArePredictedAsSuch) {
  Fakes fakes(Status::ok, Status::ok, Status::ok);
  const auto router = [&] { return fakes.router(BackendChoice::automatic, std::nullopt); };
  fakes.predict({10, 0, 0, 0, 0}, {0, 1, 0, 0, 0});
  const OneByte one;
  const std::vector<kernels::Job> jobs(14, one.job);
  EXPECT_EQ(router().transform_all(std::span(jobs).first(13)), Status::ok);
  EXPECT_EQ(fakes.cuda.calls(), 0u);
  EXPECT_EQ(router().transform_all(jobs), Status::ok);
  EXPECT_EQ(fakes.cuda.calls(), 14u);

  // One byte read and one written come to 2 us; a target that is read too to 3.
  fakes.predict({2, 0, 0, 0, 0}, {0, 0, 1e6, 1e6, 0});
  EXPECT_EQ(router().transform(jobs[0]), Status::ok);
  EXPECT_EQ(fakes.cuda.calls(), 14u);
  EXPECT_EQ(router().accumulate(jobs[0]), Status::ok);
  EXPECT_EQ(fakes.cuda.calls(), 15u);
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
    for (const bool accumulates : {false, true}) {
      SCOPED_TRACE(testing::Message() << "row " << &row - rows << (accumulates ? ", accumulate" : ""));
      Fakes fakes(row.answers[0], row.answers[1], row.answers[2]);
      SmallJob small(Residence::pinned, Residence::pinned);
      auto expected = small.expected();
      if (accumulates)
        for (auto& byte : expected) byte ^= 0x11;
      const Router router = fakes.router();
      EXPECT_EQ(accumulates ? router.accumulate(small.job) : router.transform(small.job), row.result);
      if (row.result == ok) {
        EXPECT_EQ(small.out, expected);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        const bool asked = i < row.asked, finished = asked && row.answers[i] == ok;
        const auto counted = fakes.counts.read(i);
        EXPECT_EQ(static_cast<FakeBackend*>(fakes.list[i])->calls(), asked ? 1u : 0u) << i;
        EXPECT_EQ(counted.calls, finished ? 1u : 0u) << i;
        EXPECT_EQ(counted.source_bytes, finished ? 200u : 0u) << i;
        EXPECT_EQ(counted.fallbacks, asked && !finished && row.answers[i] != unsupported ? 1u : 0u) << i;
      }
    }
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
