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

CUresult launch_rows(const Device& device, const gf::Matrix& matrix, unsigned first_row,
                     const ChunkViews& chunks, Verb verb, CUstream stream) {
  KernelArgs args = args_for(chunks, matrix, first_row, verb);
  const TileShape s = choose_tile(chunks.bytes, args.sources, args.targets, chunks.alignment(),
                                  device.info().multiprocessors);
  args.tile_depth = s.depth;
  void* parameters[] = {&args};
  return device.driver().launch_kernel(
      device.tile_kernel(static_cast<unsigned>(std::countr_zero(s.word_bytes))), s.grid_x, s.grid_y, 1,
      s.columns, s.row_groups, 1, static_cast<unsigned>(s.shared_bytes()), stream, parameters, nullptr);
}

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

CUresult launch_tiles(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                      CUstream stream) {
  const auto rows = static_cast<unsigned>(chunks.targets.size());
  unsigned most = rows;
  while (!KernelArgs::fit(chunks.sources.size(), most)) --most;
  for (unsigned first = 0; first < rows; first += most) {
    const unsigned count = std::min(most, rows - first);
    const auto r = launch_rows(device, matrix, first, chunks.with_targets(first, count), verb, stream);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
