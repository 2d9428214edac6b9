// The chunks of a launch as the device sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

/// What one launch needs, whichever kernel.
struct ChunkViews {
  std::span<const std::uint8_t* const> sources;
  std::span<std::uint8_t* const> targets;
  std::size_t bytes = 0;
  /// If some chunk lies in host memory, so that the link to the host bounds the launch: the jobs that share
  /// the link now, this one included. Otherwise 0.
  std::size_t link_jobs = 0;
  /// The largest power of two, up to 4096, that divides every address.
  std::size_t alignment() const;
};

/// The blocks to launch where the kernel itself would like `blocks` of `threads` threads, whose warps code
/// tile_bytes of every chunk at a time. Fewer over the link: no more warps than keep it busy, so that the
/// first ones write while others read, and all jobs on the link have their share. (H200, 8+3, chunks of 1
/// MiB: 46 GB/s with 64 to 256 warps, 38 with one for each tile, which all read before any writes. Eight
/// threads, chunks of 64 KiB: 44 GB/s with an eighth of that each, 38 with all of it.)
unsigned blocks_for(const ChunkViews& chunks, std::size_t blocks, unsigned threads, std::size_t tile_bytes);

/// Fills the blob of TileArgs or BitArgs: addresses of the sources, of the targets, then the coefficients of
/// the matrix's rows first_row .. first_row + targets - 1.
void fill_blob(std::uint8_t* blob, const ChunkViews& chunks, const gf::Matrix& matrix, unsigned first_row);

}  // namespace ec::kernels::cuda
