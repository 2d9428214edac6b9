// The shapes of the tensor-core kernels, shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::kernels::cuda {

/// Sources of one instruction's operand: the bits of 16 sources fill 128 columns.
inline constexpr unsigned sources_per_group = 16;
/// Targets that share a pass over the data in registers, in four row blocks.
inline constexpr unsigned targets_per_group = 8;

/// Static shared memory of a kernel: the count that warps draw tiles from.
inline constexpr std::size_t bit_count_bytes = 16;
/// The first chips with mma.m16n8k256 on bits.
inline constexpr int oldest_bit_compute_major = 8;
/// Targets of a class with BitKernel::half.
inline constexpr unsigned most_half_targets = 4;

/// Row blocks: four for each eight targets and for a long rest; a rest of up to 2 x rest_blocks takes
/// rest_blocks (H100, decode of 18+5 with three blocks 0.93 of the copy, with four 0.88; 20+5 0.94 and 0.92).
constexpr unsigned row_blocks_of(unsigned targets, unsigned rest_blocks) {
  const unsigned rest = targets % targets_per_group;
  return 4 * (targets / targets_per_group) + (rest == 0 ? 0 : rest <= 2 * rest_blocks ? rest_blocks : 4);
}

/// The blocks of a multiprocessor, so many warps each: as few as can be, since each block makes the bit
/// matrix once, and its warps share the work as they come. For compute capability 10.0 and later the compiler
/// needs more registers, which warps get by fours.
struct BitBlock {
  unsigned blocks, warps;
  constexpr BitBlock(unsigned all_warps, unsigned compute_major)
      : blocks(all_warps > 32 ? 2 : 1),
        warps(((compute_major < 10 ? all_warps : all_warps * 3 / 4) / blocks + 3) / 4 * 4) {}
  constexpr unsigned threads() const { return 32 * warps; }
};

/// A kernel for paired matrices (bits.cuh), M(r ^ h, c ^ h) = M(r, c) for h < 2^pairs, or for any (0 pairs):
/// up to 4 x quads sources of a class; `half`: up to four targets of one. A lane loads 32-bit `words` of each
/// of its sources. `warps` stay on a multiprocessor, which bounds the registers.
struct BitKernel {
  unsigned pairs, quads, words;
  bool half;
  unsigned warps;

  constexpr unsigned classes() const { return 1u << pairs; }
  constexpr unsigned groups() const { return (quads + 3) / 4; }
  constexpr unsigned most_sources() const { return 4 * quads * classes(); }
  constexpr unsigned most_targets() const { return half ? most_half_targets * classes() : ~0u; }
  /// Bytes of every chunk that a warp codes at a time.
  constexpr unsigned tile_bytes() const { return 32 * words; }
  constexpr unsigned row_blocks(unsigned targets) const {
    return half ? 2 : row_blocks_of(targets / classes(), pairs == 0 ? 3 : 0);
  }
  /// Shared memory of a block: fragments of the bit matrix, then the chunks' addresses.
  constexpr std::size_t shared_bytes(unsigned targets) const {
    const std::size_t all_groups = std::size_t{groups()} * classes();
    return row_blocks(targets) * all_groups * 32 * 8 + 8 * (sources_per_group * all_groups + targets);
  }
};

// X(quads, words, warps of half, warps of any). H200, ratio to the copy, decode of chunks of 7 to 38 MB,
// blocks of 128 threads with fixed tiles / blocks of these warps that draw them: any, 10+8 0.63 / 0.66, 16+8
// 0.72 / 0.84, 24+6 0.80 / 0.80. Another host, 4 to 7 MB: half, 72+4 12 warps 0.72, 16 warps 0.81; 150+4 one
// word 0.53, two 0.82; any, 200+5 0.49, 0.61; 192+32 0.13, 0.18. Half, 38 to 64 MB, 32 to 40 warps that do
// not read ahead / these warps, which do: 8+4 0.69 / 0.79, 10+4 0.80 / 0.85, 12+4 0.87 / 0.93, 16+4 0.93 /
// 0.98; with five quads registers are lacking, 20+4 0.97 / 0.94.
#define EC_BIT_SHAPES(X) \
  X(2, 4, 24, 20)        \
  X(3, 4, 20, 20)        \
  X(4, 4, 20, 20)        \
  X(5, 4, 32, 16)        \
  X(6, 4, 32, 24)        \
  X(8, 4, 20, 20)        \
  X(12, 4, 16, 16)       \
  X(16, 4, 12, 12)       \
  X(24, 2, 16, 12)       \
  X(32, 2, 12, 12)       \
  X(48, 2, 12, 8)        \
  X(64, 2, 8, 8)

// Fixed and drawn tiles, H200: 64+16 0.70 / 0.74, 1 MiB 0.44 / 0.57; 128+32 0.55 / 0.62. H100, fixed: 128+16
// 0.86; 128+32 by one pair 0.74, two 0.83, three 0.54; 192+32 0.72, by two pairs 0.60.
// X(pairs, quads, words, half, warps)
#define EC_PAIRED_SHAPES(X) X(1, 8, 2, 0, 20) X(1, 16, 2, 0, 12) X(2, 8, 2, 0, 12) X(3, 8, 2, 1, 8)

/// A code takes the first kernel of the least work.
inline constexpr BitKernel bit_kernels[] = {
#define EC_BIT_SHAPE(quads, words, half_warps, any_warps) \
  {0, quads, words, true, half_warps}, {0, quads, words, false, any_warps},
#define EC_PAIRED_SHAPE(pairs, quads, words, half, warps) {pairs, quads, words, (half) != 0, warps},
    EC_BIT_SHAPES(EC_BIT_SHAPE) EC_PAIRED_SHAPES(EC_PAIRED_SHAPE)
#undef EC_PAIRED_SHAPE
#undef EC_BIT_SHAPE
};
/// Quads of sources that every code of a shape fills: the quads of the shape before.
constexpr unsigned full_quads(unsigned quads) {
  unsigned full = 0;
  for (const BitKernel& kernel : bit_kernels)
    if (kernel.pairs == 0 && kernel.quads < quads) full = kernel.quads;
  return full;
}

}  // namespace ec::kernels::cuda
