// The parameter of the kernels for any matrix, shared by host and device.
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
  std::uint32_t tile_depth;  ///< for the tile kernels: sources staged in shared memory at a time
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

/// For the tile kernels: rows that a thread computes for its column; a block computes this times blockDim.y.
inline constexpr unsigned rows_per_thread = 4;

}  // namespace ec::kernels::cuda
