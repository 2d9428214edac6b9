// The wait for a device, which ends whatever the device does.
#pragma once

#include <cstddef>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/outcome.hpp"

namespace ec::kernels::cuda {

/// Waits for all that was enqueued on the lane. `bytes`: what it moves, which the deadline allows for. After
/// the deadline the lane and the device are given up; writes_in_place: the work writes memory of the caller,
/// so that a late write could reach it (Status::hung instead of fault). The device's context must be current.
Outcome wait_for(Device& device, Device::Lane& lane, std::size_t bytes, bool writes_in_place);

}  // namespace ec::kernels::cuda
