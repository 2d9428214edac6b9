// How the tensor-core kernels are launched.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/kernels/bit_args.hpp"

namespace ec::kernels::cuda {
namespace {

/// Index of the smallest shape that holds `sources`, or the number of shapes if none does.
unsigned shape_for(std::size_t sources) {
  unsigned i = 0;
  while (i < std::size(bit_shapes) && 4 * bit_shapes[i].quads < sources) ++i;
  return i;
}

unsigned targets_per_launch(std::size_t sources, std::size_t targets, unsigned groups) {
  const auto fits = [&](std::size_t t) {
    return KernelArgs::fit(sources, t) &&
           bit_shared_bytes(groups, static_cast<unsigned>(t)) <= most_shared_bytes;
  };
  if (fits(targets)) return static_cast<unsigned>(targets);
  // Whole groups of targets, so that no launch but the last does half-empty work.
  std::size_t t = targets / targets_per_group * targets_per_group;
  while (t > targets_per_group && !fits(t)) t -= targets_per_group;
  while (t > 1 && !fits(t)) --t;
  return static_cast<unsigned>(t);
}

}  // namespace

unsigned bit_kernel_steps(const gf::Matrix& matrix) {
  const unsigned shape = shape_for(matrix.cols());
  return shape == std::size(bit_shapes) ? ~0u : row_blocks_of(matrix.rows()) * bit_shapes[shape].groups();
}

std::size_t bit_kernel_reach(const Device& device, const ChunkViews& chunks) {
  const unsigned shape = shape_for(chunks.sources.size());
  if (shape == std::size(bit_shapes) || device.info().compute_major < oldest_bit_compute_major ||
      chunks.alignment() < load_alignment)
    return 0;
  const std::size_t tile = bit_shapes[shape].tile_bytes();
  return chunks.bytes / tile * tile;
}

CUresult launch_bits(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                     CUstream stream) {
  const unsigned index = shape_for(chunks.sources.size());
  const BitShape& shape = bit_shapes[index];
  const auto rows = static_cast<unsigned>(chunks.targets.size());
  const unsigned most = targets_per_launch(chunks.sources.size(), rows, shape.groups());
  const std::size_t tiles = chunks.bytes / shape.tile_bytes();
  constexpr unsigned warps = bit_kernel_threads / 32;
  for (unsigned first = 0; first < rows; first += most) {
    KernelArgs args = args_for(chunks.with_targets(first, std::min(most, rows - first)), matrix, first, verb);
    args.bytes = tiles;
    const bool half = args.targets <= most_half_targets;
    const unsigned resident =
        half ? shape.half_blocks * shape.half_waves : shape.any_blocks * shape.any_waves;
    const std::uint64_t wanted = std::min<std::uint64_t>(
        (tiles + warps - 1) / warps, resident * static_cast<unsigned>(device.info().multiprocessors));
    const unsigned blocks = blocks_for(chunks, wanted, bit_kernel_threads, shape.tile_bytes());
    const auto r = launch_blocks(device, device.bit_kernel(index, half), blocks, bit_kernel_threads,
                                 bit_shared_bytes(shape.groups(), args.targets), stream, &args);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
