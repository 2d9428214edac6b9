// How jobs are cut into tiles.
#include "kernels/cuda/kernels/tile_shape.hpp"

#include <gtest/gtest.h>

#include "kernels/cuda/kernels/tile_args.hpp"

namespace ec::test {
namespace {

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
