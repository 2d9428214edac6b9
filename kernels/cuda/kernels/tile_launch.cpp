// How the tile kernels cut a job and are launched.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <bit>

namespace ec::kernels::cuda {
namespace {

constexpr unsigned columns = 128;
constexpr unsigned most_row_groups = 4;
constexpr unsigned most_depth = 16;
static_assert(most_depth * columns * tile_words.back() <= 48 * 1024, "what every chip has of shared memory");
constexpr unsigned blocks_per_multiprocessor = 8;

unsigned ceil_div(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

/// See tile_kernel.cu: tileWidthCol = columns, tileWidthRow = rows_per_thread * row_groups, tileDepth =
/// args.tile_depth.
CUresult launch_rows(const Work& work, unsigned first, unsigned count) {
  KernelArgs args = args_for(work, first, count);
  const std::size_t bytes = work.chunks.bytes;
  const auto multiprocessors = static_cast<unsigned>(work.device.info().multiprocessors);
  auto word_bytes = static_cast<unsigned>(std::min<std::size_t>(work.chunks.alignment(), tile_words.back()));
  // Small chunks: narrower words before idle multiprocessors.
  const std::size_t threads_to_fill = std::size_t{columns} * multiprocessors;
  while (word_bytes > 4 && bytes / word_bytes < threads_to_fill) word_bytes /= 2;
  const unsigned row_groups = std::min(ceil_div(count, rows_per_thread), most_row_groups);
  args.tile_depth = std::min(args.sources, most_depth);
  const unsigned grid_x = std::min(ceil_div(bytes, std::size_t{word_bytes} * columns),
                                   blocks_per_multiprocessor * multiprocessors);
  const unsigned grid_y = ceil_div(count, std::size_t{rows_per_thread} * row_groups);
  // Words of less than four bytes are held in four (see Pack in pack.cuh).
  const unsigned shared_bytes = args.tile_depth * columns * std::max(word_bytes, 4u);
  void* parameters[] = {&args};
  return work.device.driver().launch_kernel(
      work.device.tile_kernel(static_cast<unsigned>(std::countr_zero(word_bytes))), grid_x, grid_y, 1,
      columns, row_groups, 1, shared_bytes, work.stream, parameters, nullptr);
}

}  // namespace

CUresult launch_tiles(const Work& work) {
  const auto rows = static_cast<unsigned>(work.chunks.targets.size());
  unsigned most = rows;
  while (!KernelArgs::fit(work.chunks.sources.size(), most)) --most;
  for (unsigned first = 0; first < rows; first += most)
    if (const auto r = launch_rows(work, first, std::min(most, rows - first)); r != CUDA_SUCCESS) return r;
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
