// Launches of the tensor-core kernels (bit_kernel.cu).
#pragma once

#include <cstddef>

#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/chunk_views.hpp"

namespace ec::kernels::cuda {

/// Bytes from the start of each chunk that bit kernels of this device can code: a multiple of 16 bytes or
/// more; 0 if the chunks are not aligned to 16 bytes, the chip has no such instruction, or the sources are
/// too many.
std::size_t bit_kernel_reach(const Device& device, const ChunkViews& chunks);

/// Codes the first bit_kernel_reach() bytes on `stream`, the device's context being current. As many launches
/// as the targets need; on a failure the earlier ones are under way.
CUresult launch_bits(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                     CUstream stream);

}  // namespace ec::kernels::cuda
