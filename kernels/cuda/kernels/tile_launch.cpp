// How the tile kernels are launched.
#include "kernels/cuda/kernels/tile_launch.hpp"

#include <algorithm>
#include <bit>

#include "kernels/cuda/kernels/tile_args.hpp"
#include "kernels/cuda/kernels/tile_shape.hpp"

namespace ec::kernels::cuda {
namespace {

CUresult launch_rows(const Device& device, const gf::Matrix& matrix, unsigned first_row,
                     const ChunkViews& chunks, Verb verb, CUstream stream) {
  TileArgs args;
  args.bytes = chunks.bytes;
  args.sources = static_cast<std::uint32_t>(chunks.sources.size());
  args.targets = static_cast<std::uint32_t>(chunks.targets.size());
  args.accumulate = verb == Verb::accumulate;
  fill_blob(args.blob, chunks, matrix, first_row);
  const TileShape s = choose_tile(chunks.bytes, args.sources, args.targets, chunks.alignment(),
                                  device.info().multiprocessors);
  args.tile_depth = s.depth;
  void* parameters[] = {&args};
  return device.driver().launch_kernel(
      device.tile_kernel(static_cast<unsigned>(std::countr_zero(s.word_bytes))), s.grid_x, s.grid_y, 1,
      s.columns, s.row_groups, 1, static_cast<unsigned>(s.shared_bytes()), stream, parameters, nullptr);
}

}  // namespace

CUresult launch_tiles(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                      CUstream stream) {
  const auto rows = static_cast<unsigned>(chunks.targets.size());
  unsigned most = rows;
  while (TileArgs::blob_needed(chunks.sources.size(), most) > TileArgs::blob_bytes) --most;
  for (unsigned first = 0; first < rows; first += most) {
    const unsigned count = std::min(most, rows - first);
    const auto r =
        launch_rows(device, matrix, first,
                    {chunks.sources, chunks.targets.subspan(first, count), chunks.bytes}, verb, stream);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
