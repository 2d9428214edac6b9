// The ladder: the product by ever better kernels, for ec_bench.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/kernels/ladder/rungs.hpp"
#include "gf/matrix.hpp"
#include "kernels/cuda/device/device.hpp"

namespace ec::kernels::cuda::ladder {

/// Enqueues the product by `rung` on `stream`: one launch, or several where the parameter of one does not
/// hold all rows. The chunks must stay until the stream has passed; the context must be current. On a failure
/// earlier launches are under way.
CUresult launch(Device& device, const Rung& rung, const gf::Matrix& matrix,
                std::span<const std::uint8_t* const> sources, std::span<std::uint8_t* const> targets,
                std::size_t bytes, bool accumulate, CUstream stream);

}  // namespace ec::kernels::cuda::ladder
