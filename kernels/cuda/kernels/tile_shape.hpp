// How a job is cut into tiles and launched: plain data, chosen by a pure function.
#pragma once

#include <cstddef>

namespace ec::kernels::cuda {

/// See tile_kernel.cu: tileWidthCol = columns, tileWidthRow = rows_per_thread * row_groups, tileDepth =
/// depth.
struct TileShape {
  unsigned word_bytes = 4;  ///< 1, 2, 4, 8 or 16
  unsigned columns = 128;   ///< blockDim.x
  unsigned row_groups = 1;  ///< blockDim.y
  unsigned depth = 1;       ///< sources staged at a time
  unsigned grid_x = 1;
  unsigned grid_y = 1;

  /// Words of less than four bytes are held in four (see Pack in tile_kernel.cu).
  std::size_t shared_bytes() const {
    return std::size_t{depth} * columns * (word_bytes < 4 ? 4 : word_bytes);
  }
};

/// alignment: the largest power of two that divides every chunk's address. bytes > 0.
TileShape choose_tile(std::size_t bytes, unsigned sources, unsigned targets, std::size_t alignment,
                      int multiprocessors);

}  // namespace ec::kernels::cuda
