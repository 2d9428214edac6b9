// Launches of the tile kernels (tile_kernel.cu).
#pragma once

#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/chunk_views.hpp"

namespace ec::kernels::cuda {

/// Codes chunks of any alignment and length on `stream`, the device's context being current. As many launches
/// as wide codes need; on a failure the earlier ones are under way.
CUresult launch_tiles(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                      CUstream stream);

}  // namespace ec::kernels::cuda
