// The wait for a device, which ends whatever the device does.
#pragma once

#include <cstddef>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/outcome.hpp"

namespace ec::kernels::cuda {

/// What a lane was given to do.
struct Work {
  std::size_t bytes = 0;  ///< moved in all, which the deadline allows for
  /// It writes memory of the caller, so that a late write could reach it: Status::hung instead of fault.
  bool writes_in_place = false;
};

/// Waits for all that was enqueued on the lane as `flight`. Sleeps until the work should nearly be done,
/// where that is worth a sleep, and looks often from then on. After the deadline the lane and the device are
/// given up. The device's context must be current.
Outcome wait_for(Device& device, Device::Lane& lane, LinkClock::Flight& flight, const Work& work);

}  // namespace ec::kernels::cuda
