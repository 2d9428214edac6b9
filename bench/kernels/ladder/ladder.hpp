// The ladder: the product by ever better kernels, each rung a back end of its own. For tests and ec_bench; no
// rung is among kernels::backends().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/kernels/ladder/rungs.hpp"
#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"

namespace ec::kernels::cuda::ladder {

/// One back end a rung, in the order of rungs(), called as the rung is. They behave as cuda::backend() does.
std::span<Backend* const> backends() noexcept;

/// Enqueues the product by `rung` on `stream`: one launch, or several where the parameter of one does not
/// hold all rows. The chunks must stay until the stream has passed; the context must be current. On a failure
/// earlier launches are under way.
CUresult launch(Device& device, const Rung& rung, const gf::Matrix& matrix,
                std::span<const std::uint8_t* const> sources, std::span<std::uint8_t* const> targets,
                std::size_t bytes, bool accumulate, CUstream stream);

}  // namespace ec::kernels::cuda::ladder
