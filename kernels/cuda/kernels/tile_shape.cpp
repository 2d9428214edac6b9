// How tiles are chosen.
#include "kernels/cuda/kernels/tile_shape.hpp"

#include <algorithm>

#include "kernels/cuda/kernels/tile_args.hpp"

namespace ec::kernels::cuda {
namespace {

constexpr unsigned columns = 128;
constexpr unsigned most_row_groups = 4;
constexpr unsigned most_depth = 16;  // 32 KiB of shared memory with words of 16 bytes: every chip has 48
constexpr unsigned blocks_per_multiprocessor = 8;

unsigned ceil_div(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace

TileShape choose_tile(std::size_t bytes, unsigned sources, unsigned targets, std::size_t alignment,
                      int multiprocessors) {
  TileShape s;
  s.word_bytes = static_cast<unsigned>(std::min<std::size_t>(alignment, 16));
  // Small chunks: narrower words before idle multiprocessors.
  const std::size_t threads_to_fill = std::size_t{columns} * static_cast<unsigned>(multiprocessors);
  while (s.word_bytes > 4 && bytes / s.word_bytes < threads_to_fill) s.word_bytes /= 2;
  s.columns = columns;
  s.row_groups = std::min(ceil_div(targets, rows_per_thread), most_row_groups);
  s.depth = std::min(sources, most_depth);
  s.grid_x = std::min(ceil_div(bytes, std::size_t{s.word_bytes} * s.columns),
                      blocks_per_multiprocessor * static_cast<unsigned>(multiprocessors));
  s.grid_y = ceil_div(targets, std::size_t{rows_per_thread} * s.row_groups);
  return s;
}

}  // namespace ec::kernels::cuda
