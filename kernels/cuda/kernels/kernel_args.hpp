// The parameter of the kernels for any matrix, and the table kernels; shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::kernels::cuda {

/// All data of a launch travels in its parameter (at most 4096 bytes on every chip), so that a job costs
/// one launch and no copy.
struct KernelArgs {
  std::uint64_t bytes;  ///< bytes to code of every chunk; for the tensor-core kernels in tiles (BitKernel)
  std::uint32_t sources;
  std::uint32_t targets;
  std::uint32_t accumulate;  ///< 0: targets are overwritten; 1: added to
  /// Null, or targets are compared instead of written: *difference becomes no more than first_byte plus the
  /// first byte that differs.
  unsigned long long* difference;
  std::uint64_t first_byte;
  static constexpr std::size_t blob_bytes = 4000;
  /// Addresses of the sources, of the targets, then the coefficients row by row, without the rows of ones
  /// that the kernel knows.
  alignas(8) std::uint8_t blob[blob_bytes];

  static constexpr bool fit(std::size_t sources, std::size_t targets, std::size_t rows) {
    return 8 * (sources + targets) + sources * rows <= blob_bytes;
  }
  static constexpr bool fit(std::size_t sources, std::size_t targets) {
    return fit(sources, targets, targets);
  }
};
static_assert(sizeof(KernelArgs) <= 4096);

/// Every chip gives a block this much shared memory by default.
inline constexpr std::size_t most_shared_bytes = 48 * 1024;

/// For the tile kernels: rows that a thread computes for its column; a block computes this times blockDim.y.
inline constexpr unsigned rows_per_thread = 4;

// The table kernels and their geometry. Their parameter: bytes is a multiple of 16 and at least table_tile,
// with `accumulate` a multiple of table_tile; targets is not used.
inline constexpr unsigned table_threads = 128;
/// Bytes of every chunk that a warp codes at a time: two fetches of 16 bytes a lane.
inline constexpr unsigned table_tile = 1024;
/// Sources that are multiplied together; the kernels are written for three. H100, decode of chunks of 48 to
/// 85 MB, ratio to the copy, three and two: 10+5 0.96, 0.93; 16+5 0.90, 0.84; 8+8 0.88, 0.86.
inline constexpr unsigned table_group = 3;
/// Shared memory of a block for two groups: one is multiplied, the other is on its way. Two and three groups:
/// 16+5 0.90, 0.89; 10+8 0.83, 0.85; encode of 8+3, chunks of 1 MiB, 0.54, 0.50.
inline constexpr std::size_t table_feed_bytes = std::size_t{2} * table_group * 32 * table_threads;

// X(rows, ones, blocks): kernels ec_table_r<rows>_<ones> for that many rows by table, and `ones` (0 or 1)
// rows of ones before them, sums of all sources that have no coefficients; `blocks` of them stay on a
// multiprocessor, which bounds the registers. In the order of their targets; of as many, with ones last.
// H100, 4 blocks of 4 rows 0.94 (10+4), 5 blocks 0.90; groups of two: 6+6 4 blocks 0.78, 3 blocks 0.92.
// Not measured on other chips, of which some hold two or three blocks.
#define EC_TABLE_KERNELS(X) \
  X(1, 0, 8)                \
  X(0, 1, 7)                \
  X(2, 0, 6)                \
  X(1, 1, 6)                \
  X(3, 0, 5)                \
  X(2, 1, 5)                \
  X(4, 0, 4)                \
  X(3, 1, 5)                \
  X(5, 0, 4)                \
  X(6, 0, 3)                \
  X(7, 0, 3)                \
  X(8, 0, 2)

struct TableKernel {
  unsigned rows, ones, blocks;

  constexpr unsigned targets() const { return rows + ones; }
  /// Shared memory of a block: the sources, then 64 bytes of products for each group and row.
  constexpr std::size_t shared_bytes(std::size_t sources) const {
    return table_feed_bytes + (sources + table_group - 1) / table_group * rows * 64;
  }
};
inline constexpr TableKernel table_kernels[] = {
#define EC_TABLE_KERNEL(rows, ones, blocks) {rows, ones, blocks},
    EC_TABLE_KERNELS(EC_TABLE_KERNEL)
#undef EC_TABLE_KERNEL
};

}  // namespace ec::kernels::cuda
