// Long pinned jobs by copies: slices cover the chunks, every call of the driver may fail, nothing leaks.
#include "kernels/cuda/submit/copy_job.hpp"

#include <cstring>
#include <memory>

#include "kernels/cuda/device/memory.hpp"
#include "kernels/tallies.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;

class CopyJobs : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    use(eager());
    ASSERT_TRUE(bring_up()) << log_;
    pinned_ = cuda_arena(Residence::pinned);
    ASSERT_TRUE(pinned_);
  }
  void TearDown() override {
    pinned_.reset();
    EmulatedDevice::TearDown();
  }

  static constexpr std::size_t slot_bytes = 512 * 1024;
  /// By copies whatever the length.
  static kernels::cuda::Options eager() {
    auto o = options();
    o.copies_from_bytes = 1;
    o.copy_slot_bytes = slot_bytes;
    return o;
  }

  Outcome code(unsigned targets, unsigned sources, std::size_t bytes,
               std::vector<unsigned> misalignment = {}) {
    return run_case(
        kernels::cuda::backend(),
        {random_matrix(targets, sources, bytes), bytes, Verb::transform, misalignment, misalignment, bytes},
        *pinned_);
  }

  std::unique_ptr<Arena> pinned_;
};

TEST_F(CopyJobs, DeviceMemoryIsTallied) {
  const auto& tally = kernels::device_tallies().device_bytes;
  const auto tallied = tally;
  const auto held = driver_->device_bytes();
  ASSERT_EQ(code(2, 4, 400'001).verdict, Verdict::passed);
  EXPECT_GT(tally, tallied);
  EXPECT_EQ(tally - tallied, driver_->device_bytes() - held);
  pinned_.reset();
  use(eager());
  EXPECT_EQ(tally, tallied);
}

TEST_F(CopyJobs, SlicesCoverChunksOfAnyLength) {
  for (const auto& [targets, sources] : {std::pair{1u, 1u}, {2u, 4u}, {4u, 10u}, {6u, 3u}})
    for (const std::size_t bytes : {1u, 4095u, 4096u, 12'288u, 16'385u, 36'864u, 73'729u, 400'001u}) {
      driver_->reset();
      const auto outcome = code(targets, sources, bytes, {0, 1, 16});
      ASSERT_EQ(outcome.verdict, Verdict::passed)
          << sources << "+" << targets << ", " << bytes << ": " << outcome.reason;
      const unsigned slices = driver_->calls("cuMemcpyBatchAsync_v2") / 2;
      EXPECT_GE(slices, 1u);
      // No slice is longer than a slot, and those at the ends are no more than a few.
      EXPECT_GE(slices * slot_bytes, bytes * (sources + targets));
      EXPECT_LE(slices, 8 + bytes * (sources + targets) / slot_bytes);
    }
}

TEST_F(CopyJobs, ShortOnesAndOtherResidencesGoInPlace) {
  use(options());
  ASSERT_TRUE(bring_up());
  EXPECT_EQ(code(2, 4, 100'000).verdict, Verdict::passed);
  use(eager());
  ASSERT_TRUE(bring_up());
  const auto device = cuda_arena(Residence::device);
  ASSERT_TRUE(device);
  EXPECT_EQ(run_case(kernels::cuda::backend(), {random_matrix(2, 4, 1), 5000, Verb::transform, {}, {}, 1},
                     *pinned_, *device)
                .verdict,
            Verdict::passed);
  EXPECT_EQ(run_case(kernels::cuda::backend(), {random_matrix(2, 4, 1), 5000, Verb::accumulate, {}, {}, 1},
                     *pinned_)
                .verdict,
            Verdict::passed);
  EXPECT_EQ(driver_->calls("cuMemcpyBatchAsync_v2"), 0u);
}

TEST_F(CopyJobs, EveryCallMayFail) {
  constexpr std::size_t bytes = 300'000;
  const auto device_bytes = driver_->device_bytes();
  const kernels::Program program(to_matrix(random_matrix(2, 4, 7)));
  Random random(7);
  const auto data = random.bytes(6 * bytes);
  const auto buffer = kernels::cuda::Buffer::allocate(6 * bytes, Residence::pinned);
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < 6; ++i)
    if (i < 4)
      sources.push_back({buffer.data() + i * bytes, Residence::pinned});
    else
      targets.push_back({buffer.data() + i * bytes, Residence::pinned});
  unsigned visited = 0;
  for (const char* function : {"cuMemAlloc_v2", "cuEventCreate", "cuStreamWaitEvent", "cuMemcpyBatchAsync_v2",
                               "cuEventRecord", "cuLaunchKernel", "cuStreamQuery", "cuCtxPushCurrent_v2"})
    for (unsigned nth = 1;; ++nth) {
      use(eager());
      driver_->reset();
      ASSERT_TRUE(bring_up());
      driver_->reset();
      ASSERT_TRUE(buffer.upload(0, data.data(), data.size()));
      driver_->fail(function, nth, CUDA_ERROR_OUT_OF_MEMORY, false);
      const Status status = kernels::cuda::backend().transform({&program, sources, targets, bytes});
      const bool reached = driver_->calls(function) >= nth;
      driver_->reset();
      if (!reached) break;
      ++visited;
      EXPECT_TRUE(status == Status::ok || status == Status::fault) << function << " call " << nth;
      EXPECT_EQ(std::memcmp(buffer.data(), data.data(), 4 * bytes), 0) << "sources, " << function << nth;
    }
  EXPECT_GT(visited, 20u);
  use(eager());
  EXPECT_EQ(driver_->device_bytes(), device_bytes);
}

TEST_F(CopyJobs, AHungOneIsReportedAndItsRoomIsNotLentAgain) {
  constexpr std::size_t bytes = 300'000;
  const kernels::Program program(gf::Matrix(1, 1));
  const auto buffer = kernels::cuda::Buffer::allocate(2 * bytes, Residence::pinned);
  const kernels::Source source{buffer.data(), Residence::pinned};
  const kernels::Target target{buffer.data() + bytes, Residence::pinned};
  driver_->hang();
  EXPECT_EQ(kernels::cuda::backend().transform({&program, {&source, 1}, {&target, 1}, bytes}), Status::hung);
  const auto kept = driver_->device_bytes();
  EXPECT_GE(kept, slot_bytes);
  driver_->finish_hung();
  use(eager());
  ASSERT_TRUE(bring_up());
  EXPECT_GE(driver_->device_bytes(), kept) << "freeing could wait for the device";
}

}  // namespace
}  // namespace ec::test
