// Launches of the tensor-core kernels (bit_kernel.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gf/matrix.hpp"
#include "kernels/cuda/device.hpp"

namespace ec::kernels::cuda {

/// What one launch needs, whichever kernel: the chunks as the device sees them.
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

/// Bytes from the start of each chunk that bit kernels of this device can code: a multiple of 16 bytes or
/// more; 0 if the chunks are not aligned to 16 bytes, the chip has no such instruction, or the sources are
/// too many.
std::size_t bit_kernel_reach(const Device& device, const ChunkViews& chunks);

/// Codes the first bit_kernel_reach() bytes on `stream`, the device's context being current. As many launches
/// as the targets need; on a failure the earlier ones are under way.
CUresult launch_bits(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks,
                     bool accumulate, CUstream stream);

}  // namespace ec::kernels::cuda
