// The wait for a device, which ends whatever the device does.
#pragma once

#include <chrono>
#include <cstddef>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"

namespace ec::kernels::cuda {

/// What is enqueued on a lane at once, and waited for at once.
struct Submission {
  std::size_t link_bytes = 0;   ///< that go over the link to the host, in the direction that has more
  std::size_t moved_bytes = 0;  ///< read and written in all, which the deadline allows for
  /// It writes memory of the caller, so that a late write could reach it: Status::hung instead of fault.
  bool writes_in_place = false;
};

/// Waits for the submission that was enqueued on the lane. Sleeps until it should nearly be done, where that
/// is worth a sleep, and looks often from then on. After the deadline the lane and the device are given up.
/// The deadline counts from the call. under_way: since it was enqueued, if the caller has done other things
/// meanwhile. The device's context must be current.
Outcome wait_for(Device& device, Device::Lane& lane, LinkClock::InFlight& in_flight,
                 const Submission& submission, std::chrono::steady_clock::duration under_way);

}  // namespace ec::kernels::cuda
