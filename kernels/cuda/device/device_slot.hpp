// The place of one device: brings it up in the background, and latches it off after a fault.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cuda/device/device.hpp"
#include "kernels/tallies.hpp"
#include "support/background_thread.hpp"

namespace ec::kernels::cuda {

/// Of one of Options::devices. It is absent at first and when it was tried in vain, then coming up, up, and
/// latched after a fault; from absent and latched it is tried again when retry_after has passed. Thread safe.
class DeviceSlot {
 public:
  /// Which of Options::devices it is for; before anything else.
  void set_index(std::size_t index) { index_ = index; }

  /// The device if it is up, else null at once, and then it starts coming up if it is time to try.
  std::shared_ptr<Device> acquire();

  /// The device if it is up, else null; starts nothing.
  std::shared_ptr<Device> current();

  /// As acquire(), but waits for the device to come up or fail to; *why says why it failed.
  std::shared_ptr<Device> acquire_waiting(std::string* why);

  /// Takes `device` out of service after a fault. Nothing is done for one that is not up.
  void latch(const std::shared_ptr<Device>& device, const std::string& reason);

  /// Forgets the device and any latch, so that the next acquire() brings it up anew; for tests and for use
  /// after configure(). The caller sees to it that no job is in flight.
  void reset();

  /// At the end of the process: waits for a device that is coming up, and starts none any more.
  void stop();

 private:
  void start_if_due_locked();
  void bring_up();
  void become_locked(DeviceState state, std::shared_ptr<Device> device, std::string reason);

  std::size_t index_ = 0;
  std::mutex mutex_;
  std::condition_variable came_up_or_failed_;
  DeviceState state_ = DeviceState::none;
  std::shared_ptr<Device> device_;  // while it is up
  std::string reason_;              // of the last failure
  std::chrono::steady_clock::time_point retry_at_{};
  bool stopped_ = false;
  support::BackgroundThread thread_;
};

}  // namespace ec::kernels::cuda
