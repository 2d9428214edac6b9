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
  /// The largest power of two, up to 4096, that divides every address.
  std::size_t alignment() const;
};

/// Fills the blob of TileArgs or BitArgs: addresses of the sources, of the targets, then the coefficients of
/// the matrix's rows first_row .. first_row + targets - 1.
void fill_blob(std::uint8_t* blob, const ChunkViews& chunks, const gf::Matrix& matrix, unsigned first_row);

}  // namespace ec::kernels::cuda
