// Staging in slices, the bound on pinned memory, and how jobs are cut into tiles.
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/cuda/kernels/tile_args.hpp"
#include "kernels/cuda/kernels/tile_shape.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#include "kernels/tallies.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

class Staging : public EmulatedDevice {};

TEST_F(Staging, LongChunksGoInSlicesWithinTheBound) {
  const std::size_t before = driver_->pinned_bytes();
  ASSERT_TRUE(bring_up());
  const auto arena = pageable_arena();
  // 6 chunks of 200001 bytes through 256 KiB of staging (a quarter of 1 MiB).
  const auto outcome = run_case(kernels::cuda::backend(),
                                {random_matrix(2, 4, 1), 200'001, Verb::transform, {}, {}, 1}, *arena);
  EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  EXPECT_GE(driver_->calls("cuLaunchKernel"), 5u);
  EXPECT_LE(driver_->pinned_bytes() - before, options().staging_bytes);
}

TEST_F(Staging, AccumulateThatNeedsSlicesIsLeftToTheCpu) {
  ASSERT_TRUE(bring_up());
  const std::vector<std::uint8_t> source(200'001, 3);
  std::vector<std::uint8_t> target(200'001, 5);
  gf::Matrix one(1, 1);
  one(0, 0) = 1;
  const kernels::Program program(one);
  const kernels::Source s{source.data(), kernels::Residence::pageable};
  const kernels::Target t{target.data(), kernels::Residence::pageable};
  EXPECT_EQ(kernels::cuda::backend().accumulate({&program, {&s, 1}, {&t, 1}, source.size()}),
            kernels::Status::busy);
  EXPECT_EQ(target, std::vector<std::uint8_t>(200'001, 5));
}

TEST_F(Staging, PoolKeepsItsBound) {
  std::string why;
  const auto device = kernels::cuda::Device::bring_up(options(), 0, &why);
  ASSERT_TRUE(device) << why;
  const kernels::cuda::Device::Scope scope(*device);
  auto& pool = device->pool();
  {
    const auto half = pool.allocate(300'000);
    ASSERT_TRUE(half);
    EXPECT_EQ(half.size(), 524'288u);
    const auto other = pool.allocate(524'288);
    ASSERT_TRUE(other);
    EXPECT_FALSE(pool.allocate(1));
  }
  EXPECT_EQ(pool.bytes_held(), 1'048'576u);
  EXPECT_TRUE(pool.allocate(500'000)) << "blocks come back";
}

/// A pool by itself, with its device up.
class Pools : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    std::string why;
    device_ = kernels::cuda::Device::bring_up(options(), 0, &why);
    ASSERT_TRUE(device_) << why;
    scope_.emplace(*device_);
    elsewhere_ = driver_->pinned_bytes();
    tallied_ = kernels::read(kernels::device_tallies().staging_bytes);
  }
  void TearDown() override {
    scope_.reset();
    device_.reset();
    EmulatedDevice::TearDown();
  }

  kernels::cuda::PinnedPool& pool() { return device_->pool(); }
  /// Of the pool, as the driver sees it; all who count agree.
  std::size_t pinned() const {
    const std::size_t bytes = driver_->pinned_bytes() - elsewhere_;
    EXPECT_EQ(device_->pool().bytes_held(), bytes);
    EXPECT_EQ(kernels::read(kernels::device_tallies().staging_bytes) - tallied_, bytes);
    EXPECT_LE(bytes, options().staging_bytes);
    return bytes;
  }

  static constexpr std::size_t kib = 1024, bound = 1024 * kib;
  std::shared_ptr<kernels::cuda::Device> device_;
  std::optional<kernels::cuda::Device::Scope> scope_;
  std::size_t elsewhere_ = 0, tallied_ = 0;
};

TEST_F(Pools, FreeBlocksOfOtherSizesMakeRoom) {
  { const auto whole = pool().allocate(bound); }
  EXPECT_EQ(pinned(), bound);
  {
    const auto small = pool().allocate(64 * kib);
    EXPECT_TRUE(small) << "the bound is taken up by a free block of another size";
    EXPECT_EQ(pinned(), 64 * kib);
  }
  EXPECT_TRUE(pool().allocate(bound)) << "and the other way round";
  EXPECT_EQ(pinned(), bound);
}

TEST_F(Pools, NoMoreIsReleasedThanIsNeeded) {
  {
    const auto half = pool().allocate(512 * kib);
    const auto quarter = pool().allocate(256 * kib);
    const auto eighth = pool().allocate(128 * kib);
    const auto last = pool().allocate(128 * kib);
  }
  const auto small = pool().allocate(64 * kib);
  EXPECT_TRUE(small);
  EXPECT_EQ(pinned(), bound - 64 * kib) << "one of the smallest that suffice";
  const auto half = pool().allocate(512 * kib);
  EXPECT_EQ(pinned(), bound - 64 * kib) << "those of the size are taken first";
  const auto other = pool().allocate(256 * kib);
  EXPECT_EQ(pinned(), bound - 64 * kib);
  EXPECT_TRUE(half && other);
  EXPECT_FALSE(pool().allocate(256 * kib)) << "what is free does not make up for it";
  EXPECT_EQ(pinned(), bound - 64 * kib) << "so it stays";
}

TEST_F(Pools, ManySmallOnesMakeRoomForALargeOne) {
  {
    std::vector<kernels::cuda::PinnedBlock> all;
    for (std::size_t i = 0; i < 16; ++i) all.push_back(pool().allocate(64 * kib));
  }
  EXPECT_EQ(pinned(), bound);
  const auto half = pool().allocate(512 * kib);
  EXPECT_TRUE(half);
  EXPECT_EQ(pinned(), bound);
}

TEST_F(Pools, WhatIsLentOrGivenUpStays) {
  auto given_up = pool().allocate(512 * kib);
  given_up.quarantine();
  const auto lent = pool().allocate(256 * kib);
  { const auto free = pool().allocate(256 * kib); }
  EXPECT_FALSE(pool().allocate(512 * kib));
  EXPECT_EQ(pinned(), bound);
  EXPECT_TRUE(pool().allocate(128 * kib));
  EXPECT_EQ(pinned(), bound - 128 * kib);
}

TEST_F(Pools, NothingIsReleasedWhileTheDeviceIsAtWork) {
  { const auto whole = pool().allocate(bound); }
  driver_->reset();
  {
    const kernels::cuda::LinkClock::Flight flight(device_->link_clock(), 1);
    EXPECT_FALSE(pool().allocate(64 * kib));
    EXPECT_TRUE(pool().allocate(bound)) << "what is free already takes no release";
  }
  EXPECT_EQ(driver_->calls("cuMemFreeHost"), 0u) << "it would wait for the flight, which may hang";
  EXPECT_TRUE(pool().allocate(64 * kib));
  EXPECT_EQ(driver_->calls("cuMemFreeHost"), 1u);
}

TEST_F(Pools, WhatTheDriverDoesNotTakeBackStaysCounted) {
  { const auto whole = pool().allocate(bound); }
  driver_->fail("cuMemFreeHost", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  EXPECT_FALSE(pool().allocate(64 * kib));
  EXPECT_EQ(pinned(), bound);
  EXPECT_TRUE(pool().allocate(64 * kib)) << "the next one tries again";
}

TEST_F(Pools, ThreadsOfManySizesKeepTheBound) {
  std::atomic<unsigned> served{0};
  std::vector<std::jthread> crew;
  for (unsigned t = 0; t < 4; ++t)
    crew.emplace_back([&, t] {
      const kernels::cuda::Device::Scope scope(*device_);
      Random random(t);
      for (unsigned i = 0; i < 200; ++i) {
        const auto block = pool().allocate(std::size_t{64 * kib} << random.below(5));
        EXPECT_LE(driver_->pinned_bytes() - elsewhere_, bound);
        if (block) std::memset(block.data(), static_cast<int>(t), block.size());
        served += static_cast<bool>(block);
      }
    });
  crew.clear();
  EXPECT_GT(served, 0u);
  EXPECT_LE(pinned(), bound);
  EXPECT_TRUE(pool().allocate(bound)) << "all of it is free";
}

TEST_F(Staging, CallsOfAnotherSizeAreServedWhenTheBoundIsTakenUp) {
  ASSERT_TRUE(bring_up());
  const auto arena = pageable_arena();
  const auto code = [&](std::size_t bytes) {
    return run_case(kernels::cuda::backend(), {random_matrix(2, 4, 1), bytes, Verb::transform, {}, {}, 1},
                    *arena);
  };
  {
    // As many at once as take up the bound with blocks of their size.
    const auto device = kernels::cuda::Devices::instance().current();
    const kernels::cuda::Device::Scope scope(*device);
    std::vector<kernels::cuda::PinnedBlock> all;
    while (auto block = device->pool().allocate(1)) all.push_back(std::move(block));
  }
  for (const std::size_t bytes : {100u, 20'000u, 200'001u}) {
    const auto outcome = code(bytes);
    EXPECT_EQ(outcome.verdict, Verdict::passed) << bytes << ": " << outcome.reason;
  }
}

TEST(TileShape, CoversEveryJobAndFitsEveryChip) {
  using kernels::cuda::choose_tile;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20, std::size_t{1} << 36})
    for (const unsigned sources : {1u, 8u, 200u})
      for (const unsigned targets : {1u, 4u, 5u, 17u, 250u})
        for (const std::size_t alignment : {1u, 2u, 4u, 8u, 16u, 4096u}) {
          const auto s = choose_tile(bytes, sources, targets, alignment, 132);
          EXPECT_EQ(alignment % s.word_bytes, 0u);
          EXPECT_LE(s.word_bytes, 16u);
          EXPECT_GE(s.grid_y * s.row_groups * kernels::cuda::rows_per_thread, targets);
          EXPECT_GE(s.grid_x, 1u);
          EXPECT_LE(s.columns * s.row_groups, 1024u);
          EXPECT_LE(s.shared_bytes(), 48u * 1024);
          EXPECT_GE(s.depth, 1u);
        }
}

}  // namespace
}  // namespace ec::test
