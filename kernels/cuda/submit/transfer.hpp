// Device memory to the host and back, through the slab of a lane, with the deadline of every wait.
#pragma once

#include "kernels/transfer.hpp"

namespace ec::kernels::cuda {

/// As kernels::fetch or kernels::store, of those pieces that lie on the device; the others are left alone. A
/// device that is coming up is not waited for: fault.
Status transfer_on_device(std::span<const Transfer> pieces, Direction direction) noexcept;

}  // namespace ec::kernels::cuda
