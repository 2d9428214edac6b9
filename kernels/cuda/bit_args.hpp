// The parameter of the tensor-core kernels, shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::kernels::cuda {

/// As TileArgs: one launch and no copy. Pointers of the sources, of the targets, then the coefficients row by
/// row.
struct BitArgs {
  std::uint64_t tiles;  ///< of warp_bytes(words) bytes in every chunk; what is left over is not coded
  std::uint32_t sources;
  std::uint32_t targets;
  static constexpr std::size_t blob_bytes = 4000;
  alignas(8) std::uint8_t blob[blob_bytes];
};
static_assert(sizeof(BitArgs) <= 4096);

/// Sources of one instruction's operand: the bits of 16 sources fill 128 columns.
inline constexpr unsigned sources_per_group = 16;
/// Targets that share a pass over the staged data; a rest of up to four takes half the work of eight.
inline constexpr unsigned targets_per_group = 8;

/// The numbers of groups that there is a kernel for; a code takes the smallest that holds its sources.
inline constexpr unsigned bit_kernel_groups[] = {1, 2, 3, 4, 6, 8, 12, 16};
inline constexpr unsigned bit_kernel_threads = 256;

/// 32-bit words that a lane loads of each of its sources: fewer where more sources must stay in registers.
constexpr unsigned words_of(unsigned groups) { return groups <= 4 ? 4 : groups <= 8 ? 2 : 1; }
/// Bytes of every chunk that a warp codes at a time.
constexpr unsigned warp_bytes(unsigned groups) { return 32 * words_of(groups); }

constexpr unsigned row_blocks_of(unsigned targets) {
  const unsigned rest = targets % targets_per_group;
  return 4 * (targets / targets_per_group) + (rest == 0 ? 0 : rest <= 4 ? 2 : 4);
}
/// Shared memory of a block: fragments of the bit matrix, then the chunks' addresses.
constexpr std::size_t bit_shared_bytes(unsigned groups, unsigned targets) {
  return std::size_t{row_blocks_of(targets)} * groups * 32 * 8 + 8 * (sources_per_group * groups + targets);
}

}  // namespace ec::kernels::cuda
