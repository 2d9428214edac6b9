// The shapes of the tensor-core kernels, shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::kernels::cuda {

/// Sources of one instruction's operand: the bits of 16 sources fill 128 columns.
inline constexpr unsigned sources_per_group = 16;
/// Targets that share a pass over the staged data, in four row blocks.
inline constexpr unsigned targets_per_group = 8;

inline constexpr unsigned bit_kernel_threads = 128;
/// mma.m16n8k256 on bits.
inline constexpr int oldest_bit_compute_major = 8;
inline constexpr unsigned most_half_targets = 4;

/// Four for each eight targets and for a long rest; a rest of up to 2 x rest_blocks takes rest_blocks (H100,
/// decode of 18+5 with three blocks 0.93 of the copy, with four 0.88; 20+5 0.94 and 0.92).
constexpr unsigned row_blocks_of(unsigned targets, unsigned rest_blocks) {
  const unsigned rest = targets % targets_per_group;
  return 4 * (targets / targets_per_group) + (rest == 0 ? 0 : rest <= 2 * rest_blocks ? rest_blocks : 4);
}

/// A kernel for paired matrices (bits.cuh), M(r ^ h, c ^ h) = M(r, c) for h < 2^pairs, or for any (0 pairs):
/// up to 4 x quads sources of a class; `half`: up to four targets of one. A lane loads 32-bit `words` of each
/// of its sources. `blocks` stay on a multiprocessor, which bounds the registers. The grid has up to
/// `waves` times as many blocks, and each block makes the bit matrix once.
struct BitKernel {
  unsigned pairs, quads, words;
  bool half;
  unsigned blocks, waves;

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

// H200, ratio to the copy. half, 10+4: 6 blocks of 128 threads 0.70, 8 blocks 0.75, 10 blocks 0.80 (1 wave
// 0.76), half the words 0.71; 20+4: 6 blocks 0.89, 8 blocks 0.92; 32+4: 0.98 at any number of waves. any,
// 32+8: 4 blocks 0.87, 5 blocks 0.89 (8 waves 0.86); 64+16: 2 words 0.58, 4 words 0.72 (8 waves 0.62).
// H100, half, 16+4 and 20+4: 16 waves 0.947 and 0.937, 8 waves 0.941 and 0.930. any, kernels alone, 8+8,
// which tables code: 4 blocks 0.84, 5 blocks 0.85; 10+8: 4 and 5 blocks 0.90 (8 waves 0.88); 16+5 and
// 16+8: 4 blocks 0.957 and 0.875 (8 waves 0.941 and 0.931); 20+8: 3 blocks 0.94, 4 blocks 0.87.
#define EC_BIT_SHAPES(X) \
  X(2, 4, 10, 8, 4, 1)   \
  X(3, 4, 10, 8, 4, 1)   \
  X(4, 4, 10, 16, 4, 8)  \
  X(5, 4, 8, 16, 3, 1)   \
  X(6, 4, 8, 8, 6, 1)    \
  X(8, 4, 5, 2, 5, 1)    \
  X(12, 4, 4, 1, 4, 1)   \
  X(16, 4, 3, 1, 3, 1)   \
  X(24, 2, 3, 1, 3, 1)   \
  X(32, 2, 3, 1, 3, 1)   \
  X(48, 1, 3, 1, 3, 1)   \
  X(64, 1, 3, 1, 3, 1)

// H100, ratio to the copy. 64+16: 4 blocks 0.90, 5 blocks 0.90, 6 blocks 0.88, 4 words and 3 blocks 0.89.
// 128+16: 0.86. 128+32: by one pair 0.74, two 0.83, three 0.54. 192+32: 0.72, by two pairs 0.60.
// X(pairs, quads, words, half, blocks): with one wave.
#define EC_PAIRED_SHAPES(X) X(1, 8, 2, 0, 5) X(1, 16, 2, 0, 3) X(2, 8, 2, 0, 3) X(3, 8, 2, 1, 2)

/// A code takes the first kernel of the least work.
inline constexpr BitKernel bit_kernels[] = {
#define EC_BIT_SHAPE(quads, words, half_blocks, half_waves, any_blocks, any_waves) \
  {0, quads, words, true, half_blocks, half_waves}, {0, quads, words, false, any_blocks, any_waves},
#define EC_PAIRED_SHAPE(pairs, quads, words, half, blocks) {pairs, quads, words, (half) != 0, blocks, 1},
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
