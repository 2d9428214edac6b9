// What the driver knows of memory, and a device for a process whose memory is to be known to it.
#pragma once

#include <cstddef>

#include "kernels/region.hpp"

namespace ec::kernels::cuda {

/// Where [first, first + bytes) lies as the driver knows it: pinned only if the device sees all of it at the
/// host's addresses, device for any memory of a device. pageable if no device is up; brings none up. Thread
/// safe.
Residence driver_residence(const void* first, std::size_t bytes) noexcept;

/// If this process runs with libec_cuda_pinned.so and has no device up, starts bringing one up, as a job
/// would, and returns at once. Thread safe.
void bring_up_for_preload() noexcept;

}  // namespace ec::kernels::cuda
