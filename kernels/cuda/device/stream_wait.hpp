// The wait for a device, which ends whatever the device does.
#pragma once

#include <chrono>
#include <cstddef>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"

namespace ec::kernels::cuda {

/// What a lane was given to do.
struct Work {
  std::size_t bytes = 0;  ///< moved in all, which the deadline allows for
  /// It writes memory of the caller, so that a late write could reach it: Status::hung instead of fault.
  bool writes_in_place = false;
  /// Since it was launched, if the caller has done other things meanwhile.
  std::chrono::steady_clock::duration under_way{0};
  /// The device has let a deadline pass: it is asked, and not waited for.
  bool overdue = false;
};

/// Waits for all that was enqueued on the lane as `flight`. Sleeps until the work should nearly be done,
/// where that is worth a sleep, and looks often from then on. After the deadline the lane and the device are
/// given up. The deadline counts from the call. The device's context must be current.
Outcome wait_for(Device& device, Device::Lane& lane, LinkClock::Flight& flight, const Work& work);

}  // namespace ec::kernels::cuda
