#include "kernels/cuda/bit_launch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "kernels/cuda/bit_args.hpp"

namespace ec::kernels::cuda {
namespace {

/// mma.m16n8k256 on bits.
constexpr int oldest_compute_major = 8;
constexpr std::size_t load_alignment = 16;
/// Every chip gives a block this much without being asked.
constexpr std::size_t most_shared_bytes = 48 * 1024;
/// Blocks stay for the whole job, since each makes the bit matrix once; two rounds even out their ends.
constexpr unsigned blocks_per_multiprocessor = 4;

/// Index of the smallest kernel that holds `sources`, or the number of kernels if none does.
unsigned kernel_for(std::size_t sources) {
  unsigned i = 0;
  while (i < std::size(bit_kernel_groups) && bit_kernel_groups[i] * sources_per_group < sources) ++i;
  return i;
}

unsigned targets_per_launch(std::size_t sources, std::size_t targets, unsigned groups) {
  const auto fits = [&](std::size_t t) {
    return 8 * (sources + t) + sources * t <= BitArgs::blob_bytes &&
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

std::size_t ChunkViews::alignment() const {
  std::uintptr_t addresses = 4096;
  for (const auto* p : sources) addresses |= reinterpret_cast<std::uintptr_t>(p);
  for (const auto* p : targets) addresses |= reinterpret_cast<std::uintptr_t>(p);
  return std::size_t{1} << std::countr_zero(addresses);
}

void fill_blob(std::uint8_t* blob, const ChunkViews& chunks, const gf::Matrix& matrix, unsigned first_row) {
  std::memcpy(blob, chunks.sources.data(), chunks.sources.size_bytes());
  blob += chunks.sources.size_bytes();
  std::memcpy(blob, chunks.targets.data(), chunks.targets.size_bytes());
  blob += chunks.targets.size_bytes();
  for (unsigned r = 0; r < chunks.targets.size(); ++r)
    blob = std::ranges::copy(matrix.row(first_row + r), blob).out;
}

std::size_t bit_kernel_reach(const Device& device, const ChunkViews& chunks) {
  const unsigned kernel = kernel_for(chunks.sources.size());
  if (kernel == std::size(bit_kernel_groups) || device.info().compute_major < oldest_compute_major ||
      chunks.alignment() < load_alignment)
    return 0;
  const std::size_t tile = warp_bytes(bit_kernel_groups[kernel]);
  return chunks.bytes / tile * tile;
}

CUresult launch_bits(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks,
                     bool accumulate, CUstream stream) {
  const unsigned kernel = kernel_for(chunks.sources.size());
  const unsigned groups = bit_kernel_groups[kernel];
  const auto rows = static_cast<unsigned>(chunks.targets.size());
  const unsigned most = targets_per_launch(chunks.sources.size(), rows, groups);
  BitArgs args;
  args.tiles = chunks.bytes / warp_bytes(groups);
  args.sources = static_cast<std::uint32_t>(chunks.sources.size());
  constexpr unsigned warps = bit_kernel_threads / 32;
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(
      (args.tiles + warps - 1) / warps,
      blocks_per_multiprocessor * static_cast<unsigned>(device.info().multiprocessors)));
  for (unsigned first = 0; first < rows; first += most) {
    args.targets = std::min(most, rows - first);
    fill_blob(args.blob, {chunks.sources, chunks.targets.subspan(first, args.targets), chunks.bytes}, matrix,
              first);
    void* parameters[] = {&args};
    const auto r = device.driver().launch_kernel(
        device.bit_kernel(kernel, accumulate), blocks, 1, 1, bit_kernel_threads, 1, 1,
        static_cast<unsigned>(bit_shared_bytes(groups, args.targets)), stream, parameters, nullptr);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
