// How the tensor-core kernels are launched, and which of them.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>

namespace ec::kernels::cuda {
namespace {

/// Warps of a block at the least: they make its bit matrix.
constexpr std::size_t least_warps = 4;

/// Whether M(r ^ h, c ^ h) = M(r, c); the counts of rows and columns are multiples of 2 h. Every launch asks.
bool is_paired(const gf::Matrix& matrix, unsigned h) {
  for (unsigned r = 0; r < matrix.rows(); ++r)
    for (unsigned c = 0; (r & h) == 0 && c < matrix.cols(); ++c)
      if (matrix.row(r)[c] != matrix.row(r | h)[c ^ h]) return false;
  return true;
}

/// Instructions of the tensor cores, in halves, for one position of each lane.
unsigned steps_of(const BitKernel& kernel, unsigned targets) {
  constexpr unsigned products[] = {1, 3, 9, 27};
  return kernel.row_blocks(targets) * kernel.groups() * products[kernel.pairs];
}

/// Whether one launch takes so many chunks.
bool fit_a_launch(const BitKernel& kernel, std::size_t sources, std::size_t targets) {
  return KernelArgs::fit(sources, targets, targets / kernel.classes()) &&
         kernel.shared_bytes(static_cast<unsigned>(targets)) + bit_count_bytes <= most_shared_bytes;
}

bool holds(const BitKernel& kernel, unsigned sources, unsigned targets) {
  const unsigned classes = kernel.classes();
  return sources <= kernel.most_sources() && targets <= kernel.most_targets() && sources % classes == 0 &&
         targets % classes == 0 && (kernel.pairs == 0 || fit_a_launch(kernel, sources, targets));
}

unsigned targets_per_launch(const BitKernel& kernel, std::size_t sources, std::size_t targets) {
  const auto fits = [&](std::size_t t) { return fit_a_launch(kernel, sources, t); };
  if (fits(targets)) return static_cast<unsigned>(targets);
  // Whole groups of targets, so that no launch but the last does half-empty work.
  std::size_t t = targets / targets_per_group * targets_per_group;
  while (t > targets_per_group && !fits(t)) t -= targets_per_group;
  while (t > 1 && !fits(t)) --t;
  return static_cast<unsigned>(t);
}

}  // namespace

const BitKernel* bit_kernel_for(const Device& device, const gf::Matrix& matrix, unsigned least,
                                unsigned most) {
  const BitKernel* best = nullptr;
  if (device.info().compute_major < oldest_bit_compute_major) return best;
  unsigned pairs = 0;  // pairs found in the matrix
  for (const BitKernel& kernel : bit_kernels) {
    if (kernel.pairs < least || kernel.pairs > most || !holds(kernel, matrix.cols(), matrix.rows()) ||
        (best != nullptr && steps_of(kernel, matrix.rows()) >= steps_of(*best, matrix.rows())))
      continue;
    while (pairs < kernel.pairs && is_paired(matrix, 1u << pairs)) ++pairs;
    if (pairs >= kernel.pairs) best = &kernel;
  }
  return best;
}

std::size_t bit_kernel_reach(const BitKernel& kernel, const ChunkViews& chunks) {
  constexpr std::size_t most_tiles = std::size_t{1} << 31;  // a kernel numbers them by 32 bits
  const std::size_t tiles = std::min(chunks.bytes / kernel.tile_bytes(), most_tiles);
  return chunks.alignment() < load_alignment ? 0 : tiles * kernel.tile_bytes();
}

CUresult launch_bits(const Work& work, const BitKernel& kernel) {
  const auto sources = static_cast<unsigned>(work.chunks.sources.size());
  const auto targets = static_cast<unsigned>(work.chunks.targets.size());
  const unsigned most = targets_per_launch(kernel, sources, targets);
  for (unsigned first = 0, count = 0; first < targets; first += count) {
    count = std::min(most, targets - first);
    // Several launches are for any matrix, and the last one may have few targets.
    const auto takes = [&](const BitKernel& k) { return holds(k, sources, count); };
    const BitKernel& part = count == targets ? kernel : *std::ranges::find_if(bit_kernels, takes);
    KernelArgs args = args_for(work, first, count, kernel.classes());
    args.bytes = work.chunks.bytes / kernel.tile_bytes();
    const DeviceInfo& device = work.device.info();
    const BitBlock block(part.warps, static_cast<unsigned>(device.compute_major));
    // Chunks of few tiles go to more multiprocessors by smaller blocks, and so do chunks over the link, of
    // which few warps are under way.
    const std::size_t tiles_a_block =
        (args.bytes - 1) / (std::size_t{block.blocks} * device.multiprocessors) + 1;
    const std::size_t most_warps = work.chunks.link_jobs != 0 ? least_warps : block.warps;
    const auto warps = static_cast<unsigned>(std::clamp(tiles_a_block, least_warps, most_warps));
    const Grid grid{32 * warps, part.tile_bytes(), block.blocks * block.warps / warps,
                    part.shared_bytes(count)};
    const auto r = launch_warps(work, work.device.bit_kernel(part), grid, &args);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
