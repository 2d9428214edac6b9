// Staged jobs of many slices: what is copied while the device is at other slices, and what becomes of the
// slices under way when one goes wrong.
#include <chrono>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/memory.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;
using kernels::cuda::Device;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kib = 1024, mib = kib * kib;
constexpr unsigned k = 4, m = 2;

/// A stripe with an oracle's answer: sources pageable, targets there or pinned.
class Stripe {
 public:
  Stripe(std::size_t bytes, Verb verb, Residence targets = Residence::pageable)
      : bytes_(bytes),
        verb_(verb),
        program_(to_matrix(rows_)),
        data_(Random(bytes).chunks(k, bytes)),
        before_(Random(bytes + 1).chunks(m, bytes)),
        heap_(before_),
        expected_(oracle::apply(rows_, data_)) {
    if (targets == Residence::pinned) pinned_ = kernels::cuda::Buffer::allocate(m * bytes, Residence::pinned);
    for (const auto& chunk : data_) sources_.push_back({chunk.data(), Residence::pageable});
    for (unsigned r = 0; r < m; ++r) {
      targets_.push_back({pinned_ ? pinned_.data() + r * bytes : heap_[r].data(), targets});
      for (std::size_t i = 0; verb == Verb::accumulate && i < bytes; ++i) expected_[r][i] ^= before_[r][i];
    }
    start_over();
  }

  void start_over() const {
    for (unsigned r = 0; r < m; ++r) std::memcpy(targets_[r].data, before_[r].data(), bytes_);
  }

  kernels::cuda::Outcome run() const {
    const auto device = kernels::cuda::Devices::instance().current();
    const auto verb =
        verb_ == Verb::accumulate ? kernels::cuda::Verb::accumulate : kernels::cuda::Verb::transform;
    return kernels::cuda::run_job(device, {&program_, sources_, targets_, bytes_}, verb,
                                  kernels::cuda::KernelKind::automatic);
  }

  /// Of every target the first bytes, or all.
  bool is_right(std::size_t bytes) const { return equals(expected_, bytes); }
  bool is_right() const { return is_right(bytes_); }
  bool is_as_before() const { return equals(before_, bytes_); }
  void fill_targets(std::uint8_t value) {
    for (auto& chunk : before_) chunk.assign(bytes_, value);
    for (const auto& target : targets_) std::memset(target.data, value, bytes_);
  }
  /// A late kernel may still write what is pinned.
  void abandon() { new kernels::cuda::Buffer(std::move(pinned_)); }

 private:
  bool equals(const std::vector<oracle::Bytes>& chunks, std::size_t bytes) const {
    bool same = true;
    for (unsigned r = 0; r < m; ++r)
      same = same && std::memcmp(targets_[r].data, chunks[r].data(), bytes) == 0;
    return same;
  }

  const std::size_t bytes_;
  const Verb verb_;
  const oracle::Rows rows_ = random_matrix(m, k, 5);
  const kernels::Program program_;
  const std::vector<oracle::Bytes> data_;
  std::vector<oracle::Bytes> before_, heap_, expected_;
  kernels::cuda::Buffer pinned_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
};

class StagedSlices : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    ASSERT_TRUE(bring_up()) << log_;
    driver_->reset();
  }

  /// A new device with so much staging memory.
  void bring_up_with(std::size_t staging_bytes, std::chrono::milliseconds deadline = options().deadline) {
    auto o = options();
    o.staging_bytes = staging_bytes;
    o.deadline = deadline;
    use(o);
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;
    driver_->reset();
  }

  unsigned launches() const { return driver_->calls("cuLaunchKernel"); }
  static std::shared_ptr<Device> device() { return kernels::cuda::Devices::instance().current(); }

  static std::vector<Device::Lane> all_lanes() {
    std::vector<Device::Lane> lanes;
    while (auto lane = device()->borrow_lane()) lanes.push_back(std::move(*lane));
    return lanes;
  }
  /// Whether the whole pool can be had, and with it all that was lent.
  static bool pool_is_whole() {
    const auto on = device();
    const Device::Scope scope(*on);
    return static_cast<bool>(on->pool().allocate(on->pool().limit()));
  }

  /// Of 4+2 in five slices, through 1 MiB of staging memory: a quarter of that is for a job, in two slots.
  static constexpr std::size_t slice_bytes = 20 * kib;
  static constexpr std::size_t bytes = 5 * slice_bytes - 777;
  /// Of the same for a sum in two slices: all of it is a quarter of this at most.
  static constexpr std::size_t sum_staging_bytes = 32 * mib;
  static constexpr std::size_t sum_bytes = 720'001, longest_sum_bytes = 1'398'016;
};

TEST_F(StagedSlices, CoverChunksOfAnyLengthAndResidence) {
  const auto pageable = pageable_arena();
  const auto pinned = cuda_arena(Residence::pinned);
  const auto on_device = cuda_arena(Residence::device);
  ASSERT_TRUE(pinned && on_device);
  Arena* const arenas[][2] = {{pageable.get(), pageable.get()},
                              {pageable.get(), pinned.get()},
                              {pinned.get(), pageable.get()},
                              {pageable.get(), on_device.get()}};
  for (const auto& [targets, sources] : {std::pair{1u, 1u}, {2u, 4u}, {3u, 12u}})
    for (const std::size_t chunk : {1u, 257u, 20'481u, 130'001u})
      for (const auto& [from, to] : arenas) {
        driver_->reset();
        const auto outcome = run_case(
            kernels::cuda::backend(),
            {random_matrix(targets, sources, chunk), chunk, Verb::transform, {0, 1, 16}, {3, 0}, chunk},
            *from, *to);
        ASSERT_EQ(outcome.verdict, Verdict::passed)
            << sources << "+" << targets << ", " << chunk << " bytes, " << name(from->residence()) << " to "
            << name(to->residence()) << ": " << outcome.reason;
        const std::size_t staged =
            (from == pageable.get() ? sources : 0) + (to == pageable.get() ? targets : 0);
        EXPECT_GE(launches() * 256 * kib, staged * chunk);
      }
}

TEST_F(StagedSlices, OfAWideCodeAreCopiedWithHelp) {
  bring_up_with(64 * mib);
  const auto arena = pageable_arena();
  const auto outcome = run_case(kernels::cuda::backend(),
                                {random_matrix(8, 32, 1), 220'001, Verb::transform, {0, 1}, {5}, 1}, *arena);
  EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  EXPECT_GE(launches(), 3u);
}

TEST_F(StagedSlices, OfSumsLieSideBySide) {
  bring_up_with(sum_staging_bytes);
  for (const Residence targets : {Residence::pageable, Residence::pinned}) {
    const Stripe stripe(longest_sum_bytes, Verb::accumulate, targets);
    EXPECT_EQ(stripe.run().status, Status::ok);
    EXPECT_TRUE(stripe.is_right());
  }
  EXPECT_GE(launches(), 4u) << "two slices each";
  const Stripe longer(longest_sum_bytes + 1, Verb::accumulate);
  EXPECT_EQ(longer.run().status, Status::busy);
  EXPECT_TRUE(longer.is_as_before());
}

TEST_F(StagedSlices, OneSliceTakesOneLaneAndOneBlock) {
  const std::size_t held = device()->pool().bytes_held();
  const Stripe stripe(40 * kib, Verb::transform);
  EXPECT_EQ(stripe.run().status, Status::ok);
  EXPECT_TRUE(stripe.is_right());
  EXPECT_EQ(launches(), 1u);
  EXPECT_EQ(device()->pool().bytes_held() - held, 256 * kib);
}

TEST_F(StagedSlices, TheNextIsCopiedInAndLaunchedWhileOneIsUnderWay) {
  ASSERT_EQ(driver_->plan("launch:nth=1:hang"), nullptr);
  const Stripe stripe(bytes, Verb::transform);
  EXPECT_EQ(stripe.run().status, Status::fault);
  EXPECT_EQ(launches(), 2u) << "one after the other, the second would not have been launched";
  EXPECT_TRUE(stripe.is_as_before());
  driver_->finish_hung();
}

TEST_F(StagedSlices, TheLastIsCopiedOutWhileOneIsUnderWay) {
  ASSERT_EQ(driver_->plan("launch:nth=2:hang"), nullptr);
  const Stripe stripe(bytes, Verb::transform);
  EXPECT_EQ(stripe.run().status, Status::fault);
  EXPECT_EQ(launches(), 3u);
  EXPECT_TRUE(stripe.is_right(slice_bytes));
  driver_->finish_hung();
}

TEST_F(StagedSlices, OfASumAreLaunchedWithoutAWait) {
  bring_up_with(sum_staging_bytes);
  ASSERT_EQ(driver_->plan("launch:nth=1:hang"), nullptr);
  Stripe stripe(sum_bytes, Verb::accumulate);
  EXPECT_EQ(stripe.run().status, Status::fault);
  EXPECT_EQ(launches(), 3u) << "two, and the tile kernel for the end of the last";
  EXPECT_TRUE(stripe.is_as_before());
  stripe.fill_targets(0x55);
  driver_->finish_hung();
  EXPECT_TRUE(stripe.is_as_before());
}

TEST_F(StagedSlices, OneSlotIsEnough) {
  {
    auto lanes = all_lanes();
    ASSERT_EQ(lanes.size(), 16u);
    lanes.pop_back();
    const Stripe stripe(bytes, Verb::transform);
    EXPECT_EQ(stripe.run().status, Status::ok);
    EXPECT_TRUE(stripe.is_right());
    lanes.clear();
    EXPECT_EQ(all_lanes().size(), 16u);
  }
  const auto on = device();
  const Device::Scope scope(*on);
  std::vector<kernels::cuda::PinnedBlock> rest;
  while (on->pool().bytes_held() + 128 * kib < on->pool().limit()) rest.push_back(on->pool().allocate(1));
  const Stripe stripe(bytes, Verb::transform);
  driver_->reset();
  EXPECT_EQ(stripe.run().status, Status::ok);
  EXPECT_TRUE(stripe.is_right());
  EXPECT_EQ(launches(), 6u) << "five, and the tile kernel for the end of the last";
  EXPECT_EQ(all_lanes().size(), 16u);
}

TEST_F(StagedSlices, ASecondLaneIsLeftToOthersWhenManyAreInUse) {
  auto lanes = all_lanes();
  lanes.erase(lanes.begin() + 8, lanes.end());
  ASSERT_EQ(driver_->plan("launch:nth=1:hang"), nullptr);
  const Stripe stripe(bytes, Verb::transform);
  EXPECT_EQ(stripe.run().status, Status::fault);
  EXPECT_EQ(launches(), 1u) << "one slot";
  driver_->finish_hung();
}

TEST_F(StagedSlices, AFaultInAnyOfThemLosesNothing) {
  unsigned visited = 0;
  for (const Verb verb : {Verb::transform, Verb::accumulate}) {
    const bool sum = verb == Verb::accumulate;
    const Stripe stripe(sum ? sum_bytes : bytes, verb);
    for (const char* function : {"cuLaunchKernel", "cuStreamQuery", "cuMemHostAlloc"})
      for (const CUresult error : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_FAILED})
        for (unsigned nth = 1;; ++nth) {
          const std::string when = std::string(function) + " " + std::to_string(nth);
          bring_up_with(sum ? sum_staging_bytes : mib);
          driver_->fail(function, nth, error, error == CUDA_ERROR_LAUNCH_FAILED);
          stripe.start_over();
          const auto outcome = stripe.run();
          const bool reached = driver_->calls(function) >= nth;
          driver_->reset();
          if (!reached) {
            EXPECT_TRUE(outcome.status == Status::ok && stripe.is_right()) << when;
            break;
          }
          ++visited;
          EXPECT_FALSE(outcome.gave_up) << when;
          EXPECT_TRUE(outcome.status == Status::ok ? stripe.is_right() : !sum || stripe.is_as_before())
              << when;
          EXPECT_TRUE(pool_is_whole()) << when;
          EXPECT_EQ(all_lanes().size(), 16u) << when;
        }
  }
  EXPECT_GT(visited, 20u);
}

TEST_F(StagedSlices, AFaultIsAnsweredWhenTheOthersHaveLanded) {
  bring_up_with(mib, std::chrono::milliseconds(5000));
  constexpr std::chrono::milliseconds late{60};
  // A rule does not count the calls that one before it decides: this is the third.
  ASSERT_EQ(driver_->plan("launch:nth=2:hang=60ms;launch:nth=2:CUDA_ERROR_OUT_OF_MEMORY"), nullptr);
  const auto start = Clock::now();
  const auto outcome = Stripe(bytes, Verb::transform).run();
  EXPECT_EQ(outcome.status, Status::fault);
  EXPECT_FALSE(outcome.gave_up);
  EXPECT_GE(Clock::now() - start, late);
  EXPECT_EQ(launches(), 3u);
  EXPECT_TRUE(pool_is_whole());
  EXPECT_EQ(all_lanes().size(), 16u);
}

TEST_F(StagedSlices, AHungOneKeepsItsMemoryAndItsLaneAndNoOthers) {
  ASSERT_EQ(driver_->plan("launch:nth=2:hang"), nullptr);
  Stripe stripe(bytes, Verb::transform);
  const auto on = device();
  const auto outcome = stripe.run();
  EXPECT_EQ(outcome.status, Status::fault);
  EXPECT_TRUE(outcome.gave_up);
  EXPECT_EQ(all_lanes().size(), 15u);
  const Device::Scope scope(*on);
  EXPECT_FALSE(pool_is_whole());
  EXPECT_TRUE(on->pool().allocate(mib / 2)) << "the other slot's is free";
  stripe.fill_targets(0x55);
  driver_->finish_hung();
  EXPECT_TRUE(stripe.is_as_before());
}

TEST_F(StagedSlices, TwoHungOnesAreOneDeadline) {
  constexpr std::chrono::milliseconds deadline{1000};
  bring_up_with(mib, deadline);
  driver_->hang();
  const auto start = Clock::now();
  const auto outcome = Stripe(bytes, Verb::transform).run();
  EXPECT_TRUE(outcome.gave_up);
  EXPECT_LT(Clock::now() - start, 2 * deadline);
  EXPECT_EQ(launches(), 2u);
  EXPECT_EQ(all_lanes().size(), 14u);
  driver_->finish_hung();
}

/// Whatever went wrong before it: what may still be written must not be handed to another back end.
TEST_F(StagedSlices, AHungOneThatWritesInPlaceCountsMost) {
  for (const char* plan : {"launch:nth=2:hang", "launch:nth=1:hang;launch:nth=1:CUDA_ERROR_OUT_OF_MEMORY",
                           "launch:nth=2:hang;launch:nth=2:CUDA_ERROR_OUT_OF_MEMORY"}) {
    bring_up_with(mib);
    Stripe stripe(200 * kib, Verb::transform, Residence::pinned);
    ASSERT_EQ(driver_->plan(plan), nullptr);
    const auto outcome = stripe.run();
    EXPECT_EQ(outcome.status, Status::hung) << plan;
    EXPECT_NE(outcome.reason.find("no answer within"), std::string::npos) << plan << ": " << outcome.reason;
    driver_->finish_hung();
    stripe.abandon();
  }
}

}  // namespace
}  // namespace ec::test
