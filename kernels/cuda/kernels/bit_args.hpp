// The shapes of the tensor-core kernels, shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::kernels::cuda {

/// Sources of one instruction's operand: the bits of 16 sources fill 128 columns.
inline constexpr unsigned sources_per_group = 16;
/// Targets that share a pass over the staged data; a rest of up to four takes half the work of eight.
inline constexpr unsigned targets_per_group = 8;

/// For up to 4 x quads sources there are two kernels: `half` for up to four targets, `any` for more. A lane
/// loads 32-bit `words` of each of its sources. `blocks` stay on a multiprocessor, which bounds the
/// registers. The grid has `waves` times as many blocks, and each block makes the bit matrix once.
struct BitShape {
  unsigned quads, words, half_blocks, half_waves, any_blocks, any_waves;

  constexpr unsigned groups() const { return (quads + 3) / 4; }
  /// Bytes of every chunk that a warp codes at a time.
  constexpr unsigned tile_bytes() const { return 32 * words; }
};

// H200, ratio to the copy. half, 10+4: 6 blocks of 128 threads 0.70, 8 blocks 0.75, 10 blocks 0.80 (1 wave
// 0.76), half the words 0.71; 20+4: 6 blocks 0.89, 8 blocks 0.92; 32+4: 0.98 at any number of waves. any,
// 32+8: 4 blocks 0.87, 5 blocks 0.89 (8 waves 0.86); 64+16: 2 words 0.58, 4 words 0.72 (8 waves 0.62).
#define EC_BIT_SHAPES(X) \
  X(1, 4, 10, 8, 8, 4)   \
  X(2, 4, 10, 8, 8, 4)   \
  X(3, 4, 10, 8, 8, 4)   \
  X(4, 4, 10, 8, 8, 4)   \
  X(5, 4, 8, 8, 6, 1)    \
  X(6, 4, 8, 8, 6, 1)    \
  X(8, 4, 5, 2, 5, 1)    \
  X(12, 4, 4, 1, 4, 1)   \
  X(16, 4, 3, 1, 3, 1)   \
  X(24, 2, 3, 1, 3, 1)   \
  X(32, 2, 3, 1, 3, 1)   \
  X(48, 1, 3, 1, 3, 1)   \
  X(64, 1, 3, 1, 3, 1)

/// A code takes the first shape that holds its sources.
inline constexpr BitShape bit_shapes[] = {
#define EC_BIT_SHAPE(...) {__VA_ARGS__},
    EC_BIT_SHAPES(EC_BIT_SHAPE)
#undef EC_BIT_SHAPE
};
/// Quads of sources that every code of a shape fills: the quads of the shape before.
constexpr unsigned full_quads(unsigned quads) {
  unsigned full = 0;
  for (const BitShape& shape : bit_shapes)
    if (shape.quads < quads) full = shape.quads;
  return full;
}
inline constexpr unsigned bit_kernel_threads = 128;
/// mma.m16n8k256 on bits.
inline constexpr int oldest_bit_compute_major = 8;
/// Every chip gives a block this much by default.
inline constexpr std::size_t most_shared_bytes = 48 * 1024;
inline constexpr unsigned most_half_targets = 4;

constexpr unsigned row_blocks_of(unsigned targets) {
  const unsigned rest = targets % targets_per_group;
  return 4 * (targets / targets_per_group) + (rest == 0 ? 0 : rest <= most_half_targets ? 2 : 4);
}
/// Shared memory of a block: fragments of the bit matrix, then the chunks' addresses. groups: in all.
constexpr std::size_t bit_shared_bytes(unsigned row_blocks, unsigned groups, unsigned targets) {
  return std::size_t{row_blocks} * groups * 32 * 8 + 8 * (sources_per_group * groups + targets);
}
constexpr std::size_t bit_shared_bytes(unsigned groups, unsigned targets) {
  return bit_shared_bytes(row_blocks_of(targets), groups, targets);
}

/// For paired matrices (bits.cuh), M(r ^ h, c ^ h) = M(r, c) for h < 2^pairs: up to 4 x quads sources of a
/// class; with three pairs up to four targets of one. `words` and `blocks` as above, one wave.
struct PairedShape {
  unsigned pairs, quads, words, blocks;

  constexpr unsigned classes() const { return 1u << pairs; }
  constexpr unsigned groups() const { return (quads + 3) / 4; }
  constexpr unsigned most_targets() const { return pairs == 3 ? classes() * most_half_targets : ~0u; }
  constexpr unsigned row_blocks(unsigned targets) const {
    const unsigned rows = targets / classes();
    return pairs == 3 ? 2 : 4 * ((rows + targets_per_group - 1) / targets_per_group);
  }
  constexpr std::size_t shared_bytes(unsigned targets) const {
    return bit_shared_bytes(row_blocks(targets), groups() * classes(), targets);
  }
  constexpr unsigned tile_bytes() const { return 32 * words; }
};

// H100, ratio to the copy. 64+16: 4 blocks 0.90, 5 blocks 0.90, 6 blocks 0.88, 4 words and 3 blocks 0.89.
// 128+16: 0.86. 128+32: by one pair 0.74, two 0.83, three 0.54. 192+32: 0.72, by two pairs 0.60.
#define EC_PAIRED_SHAPES(X) X(1, 8, 2, 5) X(1, 16, 2, 3) X(2, 8, 2, 3) X(3, 8, 2, 2)

inline constexpr PairedShape paired_shapes[] = {
#define EC_PAIRED_SHAPE(...) {__VA_ARGS__},
    EC_PAIRED_SHAPES(EC_PAIRED_SHAPE)
#undef EC_PAIRED_SHAPE
};

}  // namespace ec::kernels::cuda
