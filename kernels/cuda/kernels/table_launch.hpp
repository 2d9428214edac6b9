// Launches of the table kernels (table_kernel.cu).
#pragma once

#include <cstddef>

#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/chunk_views.hpp"

namespace ec::kernels::cuda {

/// Whether the table kernels beat the tensor-core kernels at this matrix: where they were measured to.
bool table_kernel_pays(const gf::Matrix& matrix);

/// Bytes from the start of each chunk that the table kernels can code; 0 if the chunks are not aligned to 16
/// bytes or shorter than a tile, or the sources are too many.
std::size_t table_kernel_reach(const ChunkViews& chunks, Verb verb);

/// Codes the first table_kernel_reach() bytes on `stream`, the device's context being current. A launch for
/// each four rows, after the first, which takes a row of ones too; on a failure the earlier ones are under
/// way.
CUresult launch_tables(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                       CUstream stream);

}  // namespace ec::kernels::cuda
