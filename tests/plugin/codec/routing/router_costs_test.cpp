// Who gets a job by predicted cost: over a grid, with work in hand, and by tables made for the purpose.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>
#include <thread>

#include "plugin/codec/routing/router.hpp"
#include "tests/common/oracle.hpp"
#include "tests/plugin/codec/checking/one_byte.hpp"
#include "tests/plugin/codec/routing/fake_backend.hpp"
#include "tests/plugin/codec/small_file.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::CostTable;
using codec::Decision;
using codec::ResidenceRange;
using codec::Router;
using codec::Work;
using kernels::Residence;
using kernels::Status;
using Reason = Decision::Reason;

constexpr std::array every_choice{BackendChoice::automatic, BackendChoice::cpu,  BackendChoice::gpu,
                                  BackendChoice::x86,       BackendChoice::isal, BackendChoice::reference};
constexpr std::array<std::pair<unsigned, unsigned>, 5> shapes{{{4, 2}, {8, 3}, {10, 4}, {32, 8}, {1, 3}}};
constexpr ResidenceRange all_pinned{Residence::pinned, Residence::pinned};

/// Calls visit(work) over shapes, chunks from 1 byte to 256 MiB, and a few counts of stripes.
template <class Visit>
void over_the_grid(Visit&& visit) {
  for (const auto& [k, m] : shapes)
    for (std::uint64_t bytes = 1; bytes <= 256u << 20; bytes *= 2)
      for (std::uint64_t stripes : {1u, 16u, 4096u})
        for (bool accumulate : {false, true}) visit(Work{k, m, bytes, stripes, accumulate});
}

TEST(RouterCosts, ForcedChoicesAndDeviceMemoryDoNotDependOnCosts) {
  // Tables that would send everything one way or the other.
  CostTable dear = codec::default_costs(), cheap = dear;
  dear.pinned = dear.device = {1e9, 0, 1e9, 1e9, 0};
  cheap.pinned = cheap.device = {};
  cheap.pageable = codec::Rates{};
  for (const auto choice : every_choice)
    for (const CostTable* table : {&dear, &cheap})
      for (const auto threshold : {std::optional<std::size_t>(), std::optional<std::size_t>(1 << 20)}) {
        const Router router(choice, threshold, *table);
        over_the_grid([&](const Work& work) {
          for (const auto host : {Residence::pageable, Residence::pinned, Residence::device}) {
            const auto decision = router.decide(work, {host, Residence::device}, 1000);
            EXPECT_TRUE(decision.device);
            EXPECT_EQ(decision.reason, Reason::on_device);
          }
          if (choice == BackendChoice::automatic) return;
          for (const auto host : {Residence::pageable, Residence::pinned}) {
            const auto decision = router.decide(work, {host, Residence::pinned}, 1000);
            EXPECT_EQ(decision.device, choice == BackendChoice::gpu);
            EXPECT_EQ(decision.reason, Reason::forced);
          }
        });
      }
}

TEST(RouterCosts, PinnedChunksGoToWhoIsPredictedFaster) {
  const Router router(BackendChoice::automatic, std::nullopt);
  over_the_grid([&](const Work& work) {
    for (unsigned jobs : {0u, 1u, 7u}) {
      const auto decision = router.decide(work, all_pinned, jobs);
      EXPECT_EQ(decision.reason, Reason::predicted_faster);
      EXPECT_EQ(decision.device_us, *device_us(codec::default_costs(), work, Residence::pinned, jobs));
      EXPECT_EQ(decision.cpu_us, cpu_us(codec::default_costs(), work));
      EXPECT_EQ(decision.device, decision.device_us < decision.cpu_us);
    }
  });
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

TEST(RouterCosts, TheLongerTheQueueTheLessTheDeviceTakes) {
  const Router router(BackendChoice::automatic, std::nullopt);
  over_the_grid([&](const Work& work) {
    bool taken = true;
    for (unsigned jobs = 0; jobs < 40; ++jobs) {
      const bool device = router.decide(work, all_pinned, jobs).device;
      EXPECT_LE(device, taken);
      taken = device;
    }
  });
  const Work work{8, 3, 1 << 20};
  EXPECT_TRUE(router.decide(work, all_pinned, 0).device);
  EXPECT_FALSE(router.decide(work, all_pinned, 16).device);
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
  // A twentieth faster, for the cores that copy; twice where others want those cores.
  for (auto& each : table.cpu) each.rates = {100, 0, 0, 0, 0};
  const struct {
    double device_us;
    unsigned others;
    bool device;
  } rows[] = {{96, 0, false}, {95, 0, true}, {95, 1, false}, {51, 1, false}, {49, 1, true}, {51, 100, false}};
  for (const auto& row : rows) {
    table.pageable = table.pinned = codec::Rates{row.device_us, 0, 0, 0, 0};
    const Router margins(BackendChoice::automatic, std::nullopt, table);
    EXPECT_EQ(margins.decide({8, 3, 4096}, pageable, 0, 1, row.others).device, row.device) << row.device_us;
    EXPECT_TRUE(margins.decide({8, 3, 4096}, all_pinned, 0, 1, row.others).device) << row.device_us;
  }
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

/// A device that says how many calls were marked as on it while it had this one.
class CountingDevice final : public kernels::Backend {
 public:
  explicit CountingDevice(const codec::Counters& counts) : counts_(counts) {}
  std::string_view name() const noexcept override { return "cuda"; }
  bool supports(const kernels::Job&) const noexcept override { return true; }
  Status transform(const kernels::Job&) noexcept override {
    seen = counts_.on_device();
    return answer;
  }
  Status accumulate(const kernels::Job& job) noexcept override { return transform(job); }

  unsigned seen = 0;
  Status answer = Status::ok;

 private:
  const codec::Counters& counts_;
};

TEST(RouterCosts, ACallIsOnTheDeviceWhileTheDeviceHasItAndNoLonger) {
  codec::Counters counts;
  CountingDevice device(counts);
  FakeBackend isal("isal", Status::ok);
  const std::array<kernels::Backend*, 2> list{&device, &isal};
  const Router router(BackendChoice::gpu, std::nullopt, codec::default_costs(), list, counts);
  const OneByte one;
  const kernels::Job& job = one.job;
  for (const Status answer : {Status::ok, Status::busy, Status::fault, Status::unsupported, Status::hung}) {
    device.answer = answer;
    device.seen = 0;
    EXPECT_EQ(router.transform(job), answer == Status::hung ? Status::hung : Status::ok);
    EXPECT_EQ(device.seen, 1u);
    EXPECT_EQ(counts.on_device(), 0u) << name(answer);
    static_cast<void>(router.accumulate(job));
    static_cast<void>(router.transform_all({&job, 1}));
    EXPECT_EQ(counts.on_device(), 0u) << name(answer);
  }
  // What is not offered to the device is not counted as its work.
  const Router cpu(BackendChoice::cpu, std::nullopt, codec::default_costs(), list, counts);
  device.seen = 0;
  EXPECT_EQ(cpu.transform(job), Status::ok);
  EXPECT_EQ(device.seen, 0u);
}

/// Cores without load, whatever this machine is at.
codec::CpuLoad& free_cores() {
  static codec::CpuLoad load(1, "/nonexistent");
  return load;
}

/// A device and the CPU, fakes that finish everything, and routers that predict by `table`.
struct DeviceAndCpu {
  Router router(codec::CpuLoad& load = free_cores()) {
    return Router(BackendChoice::automatic, std::nullopt, table, list, counts, codec::no_validation(), load,
                  nullptr);
  }

  codec::Counters counts;
  FakeBackend device{"cuda", Status::ok}, isal{"isal", Status::ok};
  std::array<kernels::Backend*, 2> list{&device, &isal};
  CostTable table = codec::default_costs();
};

/// The device is busy with a call of another thread; the CPU takes the next one.
TEST(RouterCosts, WorkInHandSendsTheNextCallToTheCpu) {
  DeviceAndCpu fakes;
  fakes.table.pinned = {10, 0, 0, 0, 0};
  fakes.table.parallel_calls = 1;
  for (auto& each : fakes.table.cpu) each.rates = {25, 0, 0, 0, 0};
  const Router router = fakes.router();
  const OneByte one;
  const kernels::Job& job = one.job;
  EXPECT_EQ(router.transform(job), Status::ok);
  EXPECT_EQ(fakes.device.calls(), 1u);
  {
    const codec::Counters::OnDevice first(fakes.counts);
    EXPECT_EQ(router.transform(job), Status::ok);
    EXPECT_EQ(fakes.device.calls(), 2u);  // 20 us against 25
    const codec::Counters::OnDevice second(fakes.counts);
    EXPECT_EQ(router.transform(job), Status::ok);
    EXPECT_EQ(fakes.device.calls(), 2u);  // 30 us against 25
    EXPECT_EQ(fakes.isal.calls(), 1u);
  }
  EXPECT_EQ(router.transform(job), Status::ok);
  EXPECT_EQ(fakes.device.calls(), 3u);
}

/// Threads wait for cores; the device takes what it would not take otherwise, unless a core must copy it.
TEST(RouterCosts, BusyCoresSendTheNextCallToTheDevice) {
  DeviceAndCpu fakes;
  fakes.table.pinned = {50, 0, 0, 0, 0};
  fakes.table.pageable = codec::Rates{50, 0, 0, 0, 0};
  OneByte one;
  const kernels::Job& job = one.job;
  const struct {
    double cpu_us;
    const char* loadavg;
    bool device;
  } rows[] = {{25, "0.1 0.1 0.1 4/100 1\n", false}, {25, "0.1 0.1 0.1 8/100 1\n", false},
              {25, "0.1 0.1 0.1 9/100 1\n", true},  {53, "0.1 0.1 0.1 1/100 1\n", true},
              {60, "0.1 0.1 0.1 9/100 1\n", true},  {7, "0.1 0.1 0.1 99/100 1\n", true},
              {6, "0.1 0.1 0.1 99/100 1\n", false}};
  for (const auto& row : rows) {
    const SmallFile loadavg(row.loadavg);
    codec::CpuLoad load(4, loadavg.path());
    for (auto& each : fakes.table.cpu) each.rates = {row.cpu_us, 0, 0, 0, 0};
    const Router router = fakes.router(load);
    const unsigned before = fakes.device.calls();
    EXPECT_EQ(router.transform(job), Status::ok);
    EXPECT_EQ(fakes.device.calls() - before, row.device ? 1u : 0u) << row.cpu_us << " us, " << row.loadavg;

    one.source.residence = Residence::pageable;
    EXPECT_EQ(router.transform(job), Status::ok);
    const bool both = row.device && row.cpu_us > Router::pageable_margin * 50;
    EXPECT_EQ(fakes.device.calls() - before, both ? 2u : row.device) << row.cpu_us << " us, " << row.loadavg;
    one.source.residence = Residence::pinned;
  }
}

/// Stripes and verb reach the model.
TEST(RouterCosts, ManyStripesAndAccumulateArePredictedAsSuch) {
  DeviceAndCpu fakes;
  fakes.table.pinned = {10, 0, 0, 0, 0};
  for (auto& each : fakes.table.cpu) each.rates = {0, 1, 0, 0, 0};
  const Router stripes = fakes.router();
  const OneByte one;
  const std::vector<kernels::Job> jobs(11, one.job);
  EXPECT_EQ(stripes.transform_all(std::span(jobs).first(10)), Status::ok);
  EXPECT_EQ(fakes.device.calls(), 0u);
  EXPECT_EQ(stripes.transform_all(jobs), Status::ok);
  EXPECT_EQ(fakes.device.calls(), 11u);

  // One byte read and one written come to 2 us; a target that is read too to 3.
  for (auto& each : fakes.table.cpu) each.rates = {0, 0, 1e6, 1e6, 0};
  fakes.table.pinned = {2.5, 0, 0, 0, 0};
  const Router verbs = fakes.router();
  EXPECT_EQ(verbs.transform(jobs[0]), Status::ok);
  EXPECT_EQ(fakes.device.calls(), 11u);
  EXPECT_EQ(verbs.accumulate(jobs[0]), Status::ok);
  EXPECT_EQ(fakes.device.calls(), 12u);
}

}  // namespace
}  // namespace ec::test
