// The parameter of the tile kernels, shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::kernels::cuda {

/// Everything a launch needs travels in its parameter (at most 4096 bytes on every chip), so that a job costs
/// one launch and no copy: pointers of the sources, pointers of the targets, then the coefficients row by
/// row.
struct TileArgs {
  std::uint64_t bytes;  ///< length of every chunk
  std::uint32_t sources;
  std::uint32_t targets;
  std::uint32_t tile_depth;  ///< sources staged in shared memory at a time
  std::uint32_t accumulate;  ///< 0: targets are overwritten; 1: added to
  static constexpr std::size_t blob_bytes = 4000;
  alignas(8) std::uint8_t blob[blob_bytes];

  static constexpr std::size_t blob_needed(std::size_t sources, std::size_t targets) {
    return 8 * (sources + targets) + sources * targets;
  }
};
static_assert(sizeof(TileArgs) <= 4096);

/// Rows that one thread computes for its column; a block computes this times blockDim.y.
inline constexpr unsigned rows_per_thread = 4;

}  // namespace ec::kernels::cuda
