// Staging: what is copied through the slab of a lane, in slices where it must; what becomes of memory and
// targets when a slice goes wrong; and that jobs allocate nothing in the driver. Batches of many launches.
#include <chrono>
#include <vector>

#include "kernels/cuda/submit/device_job.hpp"
#include "kernels/device_stats.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::cuda::Device;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kib = 1024;
constexpr unsigned m = PlacedStripes::Shape{}.m;
/// Of the options of the fixture: a lane has this much.
constexpr std::size_t slab_bytes = 64 * kib;
/// Of 4+2 in five slices: half a slab holds six chunks of a page.
constexpr std::size_t page = 4 * kib;
constexpr std::size_t five_slices = 5 * page - 777;

/// Sources pageable, targets of any residence.
PlacedStripes::Shape staged(std::size_t bytes, Verb verb, Residence targets = Residence::pageable) {
  return {bytes, Residence::pageable, targets, verb};
}

class Staging : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    before_ = held();
    up();
  }

  /// A new device, and nothing counted.
  void up(std::chrono::milliseconds deadline = options().deadline) {
    auto o = options();
    o.deadline = deadline;
    use(o);
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;
    driver_->reset();
  }

  static kernels::cuda::Outcome run(const PlacedStripes& stripe) {
    return kernels::cuda::run_job(*device(), stripe.jobs()[0], stripe.shape().verb,
                                  kernels::cuda::KernelKind::automatic);
  }
  static Status run(const PlacedStripes::Shape& shape) { return run(PlacedStripes(shape, 5)).status; }

  struct Held {
    std::size_t pinned, staging, given_up;
    bool operator==(const Held&) const = default;
  };
  Held held() const {
    const auto& stats = kernels::device_stats();
    return {driver_->pinned_bytes(), kernels::read(stats.staging_bytes), kernels::read(stats.given_up_bytes)};
  }
  unsigned launches() const { return driver_->calls("cuLaunchKernel"); }
  static std::shared_ptr<Device> device() { return kernels::cuda::Devices::instance().current(); }
  static std::vector<Device::BorrowedLane> all_lanes() {
    std::vector<Device::BorrowedLane> lanes;
    while (auto lane = device()->borrow_lane()) lanes.push_back(std::move(lane));
    return lanes;
  }

  Held before_{};
};

TEST_F(Staging, CoversChunksOfAnyLengthAndResidence) {
  const auto pageable = pageable_arena();
  const auto pinned = cuda_arena(Residence::pinned);
  const auto on_device = cuda_arena(Residence::device);
  ASSERT_TRUE(pinned && on_device);
  Arena* const arenas[][2] = {{pageable.get(), pageable.get()},
                              {pageable.get(), pinned.get()},
                              {pinned.get(), pageable.get()},
                              {pageable.get(), on_device.get()},
                              {on_device.get(), pageable.get()}};
  for (const auto& [targets, sources] : {std::pair{1u, 1u}, {2u, 4u}, {3u, 12u}, {8u, 32u}})
    for (const std::size_t bytes : {1u, 257u, 20'481u, 130'001u})
      for (const auto& [from, to] : arenas)
        for (const Verb verb : {Verb::transform, Verb::accumulate}) {
          driver_->reset();
          const bool on_host = from != on_device.get() && to != on_device.get();
          // Sums wait in the slab until the end.
          if (verb == Verb::accumulate && on_host && targets * bytes > slab_bytes / 2) continue;
          const auto outcome = run_case(
              kernels::cuda::backend(),
              {random_matrix(targets, sources, bytes), bytes, verb, {0, 1, 16}, {3, 0}, bytes}, *from, *to);
          ASSERT_EQ(outcome.verdict, Verdict::passed)
              << name(from->residence()) << " to " << name(to->residence()) << ": " << outcome.reason;
          const std::size_t staged =
              (from == pageable.get() ? sources : 0) + (to == pageable.get() ? targets : 0);
          EXPECT_GE(launches() * slab_bytes, staged * bytes);
        }
}

TEST_F(Staging, SumsMustFitTheSlabAndAreLeftAloneOtherwise) {
  constexpr std::size_t most = slab_bytes / m;
  for (const Residence targets : {Residence::pageable, Residence::pinned}) {
    const PlacedStripes fits(staged(most - 1024, Verb::accumulate, targets), 1);
    const PlacedStripes longer(staged(most + 1, Verb::accumulate, targets), 2);
    EXPECT_EQ(run(fits).status, Status::ok);
    EXPECT_EQ(fits.right(), true);
    EXPECT_EQ(run(longer).status, Status::busy);
    EXPECT_EQ(longer.as_before(), true);
  }
  const PlacedStripes on_device(staged(5 * slab_bytes, Verb::accumulate, Residence::device), 3);
  EXPECT_EQ(run(on_device).status, Status::ok);
  EXPECT_EQ(on_device.right(), true);
}

/// Kernels that run late find what was copied in for them, and not the slice after it.
TEST_F(Staging, TheNextSliceIsCopiedInBesideTheOneUnderWay) {
  for (const Verb verb : {Verb::transform, Verb::accumulate}) {
    plan("launch:every=1:hang=2ms");
    const PlacedStripes stripe(staged(five_slices, verb), 5);
    EXPECT_EQ(run(stripe).status, Status::ok);
    EXPECT_EQ(stripe.right(), true);
    EXPECT_GT(launches(), 4u);
  }
}

/// A code of several launches is answered when all of them are over.
TEST_F(Staging, AFaultIsAnsweredWhenWhatWasLaunchedBeforeIsOver) {
  up(std::chrono::milliseconds(5000));
  // A rule does not count the calls that one before it decides: this is the second.
  plan("launch:nth=1:hang=60ms;launch:nth=1:CUDA_ERROR_OUT_OF_MEMORY");
  const auto start = Clock::now();
  const auto outcome = run(PlacedStripes(staged(5000, Verb::transform), 5));
  EXPECT_EQ(outcome.status, Status::fault);
  EXPECT_EQ(outcome.waited.count(), 0) << "the driver has answered";
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(60));
  EXPECT_EQ(launches(), 2u) << "the tensor cores, and the tile kernel for the end";
  EXPECT_EQ(all_lanes().size(), Device::lane_count);
}

/// It may be that of another process, told to all while their kernels still run.
TEST_F(Staging, AnErrorUnderMpsLeavesOpenWhatIsStillWritten) {
  for (const char* mps : {"0", "1"})
    for (const Residence targets : {Residence::pageable, Residence::pinned}) {
      setenv("EC_EMULATED_MPS", mps, 1);
      up(std::chrono::milliseconds(5000));
      plan("cuStreamQuery:nth=1:CUDA_ERROR_ILLEGAL_ADDRESS");
      PlacedStripes stripe(staged(page, Verb::transform, targets), 5);
      const bool open = *mps == '1' && targets == Residence::pinned;
      EXPECT_EQ(run(stripe).status, open ? Status::hung : Status::fault) << mps;
      EXPECT_EQ(all_lanes().size(), Device::lane_count);
    }
  unsetenv("EC_EMULATED_MPS");
}

struct Hang {
  const char* name;
  Verb verb;
  Residence targets;
  unsigned nth;           ///< launch
  unsigned launches;      ///< in all
  std::size_t right = 0;  ///< bytes of every target that were copied out before
  Status status = Status::fault;
};

class HungSlice : public Staging, public testing::WithParamInterface<Hang> {};

INSTANTIATE_TEST_SUITE_P(
    Staging, HungSlice,
    testing::Values(Hang{"first", Verb::transform, Residence::pageable, 1, 1},
                    Hang{"second", Verb::transform, Residence::pageable, 2, 2, page},
                    Hang{"last", Verb::transform, Residence::pageable, 5, 6, 4 * page},
                    Hang{"of_a_sum", Verb::accumulate, Residence::pageable, 2, 2},
                    Hang{"of_a_sum_pinned", Verb::accumulate, Residence::pinned, 2, 2},
                    Hang{"in_place", Verb::transform, Residence::pinned, 2, 2, 0, Status::hung},
                    Hang{"of_a_sum_in_place", Verb::accumulate, Residence::device, 2, 2, 0, Status::hung}),
    [](const auto& info) { return info.param.name; });

/// Its lane and memory are not used again, what it writes late reaches nothing of the host's, or the caller
/// is told that it may.
TEST_P(HungSlice, KeepsItsMemory) {
  const Hang& hang = GetParam();
  plan("launch:nth=" + std::to_string(hang.nth) + ":hang");
  PlacedStripes stripe(staged(five_slices, hang.verb, hang.targets), 5);
  const auto outcome = run(stripe);
  EXPECT_EQ(outcome.status, hang.status);
  EXPECT_GT(outcome.waited.count(), 0);
  EXPECT_EQ(launches(), hang.launches);
  EXPECT_EQ(all_lanes().size(), Device::lane_count - 1);
  EXPECT_EQ(held().given_up - before_.given_up, options().staging_bytes);
  if (hang.status == Status::fault) {
    EXPECT_EQ(stripe.right(hang.right), true);
    EXPECT_TRUE(hang.verb == Verb::transform || stripe.as_before() == true);
    stripe.fill_targets(0x55);
    driver_->finish_hung();
    EXPECT_EQ(stripe.as_before(), true);
  }
  driver_->finish_hung();
  stripe.abandon();
  use(options());
  EXPECT_GE(held().pinned - before_.pinned, options().staging_bytes) << "it stays for good";
}

/// Work of other threads goes on there. The next device comes up when that is over, and not beside it.
TEST_F(Staging, ADeviceThatHangsAfterAnotherFaultCostsItsMemoryOnce) {
  auto& devices = kernels::cuda::Devices::instance();
  for (const bool after_the_next_is_up : {false, true}) {
    auto failed = device();
    devices.latch(*failed, "a test");
    if (after_the_next_is_up) {
      EXPECT_TRUE(bring_up()) << log_;
    }
    plan("launch:nth=1:hang");
    const PlacedStripes stripe(staged(page, Verb::transform), 5);
    const auto hung = kernels::cuda::run_job(*failed, stripe.jobs()[0], Verb::transform,
                                             kernels::cuda::KernelKind::automatic);
    EXPECT_EQ(kernels::cuda::settle(*failed, hung), Status::fault);
    failed.reset();
    if (after_the_next_is_up) devices.latch(*device(), "another test");
    log_.clear();
    EXPECT_FALSE(bring_up());
    EXPECT_NE(log_.find("its work from before is not over"), std::string::npos) << log_;
    driver_->finish_hung();
    EXPECT_TRUE(bring_up()) << log_;
    EXPECT_EQ(held().pinned - before_.pinned, options().staging_bytes);
    EXPECT_EQ(held().given_up, before_.given_up);
  }
}

/// A millisecond for each megabyte.
TEST_F(Staging, ALongJobIsWaitedForLonger) {
  const PlacedStripes stripe({1'000'000, Residence::pinned, Residence::pinned}, 5);
  plan("launch:every=1:hang");
  EXPECT_EQ(run(stripe).waited, options().deadline + std::chrono::milliseconds(6));
  stripe.abandon();
}

/// A driver takes some hundred launches and then waits until one is over, however long that takes.
TEST_F(Staging, ABatchThatHangsLeavesRoomInTheQueueOfTheDriver) {
  const PlacedStripes stripes({48, Residence::pinned, Residence::pinned, Verb::transform, 900}, 5);
  plan("launch:every=1:hang");
  EXPECT_EQ(kernels::cuda::backend().transform_all(stripes.jobs()), Status::hung);
  EXPECT_LE(launches(), 256u);
  stripes.abandon();
}

/// A comparison writes no chunk.
TEST_F(Staging, AComparedBatchThatHangsIsAFault) {
  const PlacedStripes stripes({48, Residence::pinned, Residence::pinned, Verb::transform, 2}, 5);
  plan("launch:every=1:hang");
  unsigned long long difference = 0;
  EXPECT_EQ(kernels::cuda::backend().compare(stripes.jobs(), &difference, std::nullopt), Status::fault);
}

TEST_F(Staging, TheFirstDifferenceOfManyLaunchesIsFound) {
  const PlacedStripes stripes({48, Residence::pinned, Residence::pinned, Verb::transform, 900}, 5);
  auto& gpu = kernels::cuda::backend();
  ASSERT_EQ(gpu.transform_all(stripes.jobs()), Status::ok);
  EXPECT_EQ(stripes.right(), true);
  unsigned long long found = kernels::no_difference;
  for (const unsigned stripe : {900u, 899u, 700u, 701u, 0u}) {
    if (stripe < 900) {
      stripes.jobs()[stripe].targets[1].data[7] ^= 1;
      found = std::min(found, stripe * 48ull + 7);
    }
    unsigned long long difference = 0;
    EXPECT_EQ(gpu.compare(stripes.jobs(), &difference, std::nullopt), Status::ok);
    EXPECT_EQ(difference, found);
  }
}

}  // namespace
}  // namespace ec::test
