// Device memory to the host and back, through staging memory, with the deadline of every wait.
#pragma once

#include "kernels/transfer.hpp"

namespace ec::kernels::cuda {

/// As kernels::fetch and kernels::store, of those pieces that lie on the device; the others are left alone.
/// A device that is coming up is not waited for: fault.
Status fetch_from_device(std::span<const Transfer> pieces) noexcept;
Status store_on_device(std::span<const Transfer> pieces) noexcept;

}  // namespace ec::kernels::cuda
