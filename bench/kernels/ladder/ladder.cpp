#include "bench/kernels/ladder/ladder.hpp"

#include <algorithm>

#include "bench/kernels/ladder/loaded_kernel.hpp"
#include "kernels/cuda/kernels/bit_launch.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"

namespace ec::kernels::cuda::ladder {
namespace {

CUresult launch_rows(Device& device, const Rung& rung, const gf::Matrix& matrix, unsigned first_row,
                     std::span<const std::uint8_t* const> sources, std::span<std::uint8_t* const> targets,
                     std::size_t bytes, bool accumulate, CUstream stream) {
  TileArgs args;
  args.bytes = bytes;
  args.sources = static_cast<std::uint32_t>(sources.size());
  args.targets = static_cast<std::uint32_t>(targets.size());
  args.accumulate = accumulate;
  const ChunkViews chunks{sources, targets, bytes};
  fill_blob(args.blob, chunks, matrix, first_row);
  const LaunchShape s =
      rung.choose({bytes, args.sources, args.targets, chunks.alignment(), device.info().multiprocessors});
  args.tile_depth = s.depth;
  CUfunction function = nullptr;
  if (const auto r = loaded_kernel(device, rung.image, s.function, &function); r != CUDA_SUCCESS) return r;
  void* parameters[] = {&args};
  return device.driver().launch_kernel(function, s.grid_x, s.grid_y, 1, s.block_x, s.block_y, 1,
                                       static_cast<unsigned>(s.shared_bytes), stream, parameters, nullptr);
}

}  // namespace

CUresult launch(Device& device, const Rung& rung, const gf::Matrix& matrix,
                std::span<const std::uint8_t* const> sources, std::span<std::uint8_t* const> targets,
                std::size_t bytes, bool accumulate, CUstream stream) {
  const std::size_t rows = targets.size();
  std::size_t most = rows;
  while (TileArgs::blob_needed(sources.size(), most) > TileArgs::blob_bytes) --most;
  for (std::size_t first = 0; first < rows; first += most) {
    const auto group = targets.subspan(first, std::min(most, rows - first));
    if (const auto r = launch_rows(device, rung, matrix, static_cast<unsigned>(first), sources, group, bytes,
                                   accumulate, stream);
        r != CUDA_SUCCESS)
      return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda::ladder
