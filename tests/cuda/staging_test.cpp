// Staging in slices, the bound on pinned memory, and how jobs are cut into tiles.
#include <vector>

#include "kernels/cuda/device_job.hpp"
#include "kernels/cuda/tile_args.hpp"
#include "kernels/cuda/tile_shape.hpp"
#include "tests/cuda/emulated.hpp"
#include "tests/support/conformance.hpp"

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
