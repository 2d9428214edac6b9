// The devices of this process: how they come up and are latched off, and the choice of one for a job.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/device_stats.hpp"
#include "support/background_thread.hpp"
#include "support/process_life.hpp"

namespace ec::kernels::cuda {

/// A device for one job, or null; `bytes` count as under way there while the claim lives.
class Claim {
 public:
  explicit Claim(std::shared_ptr<Device> device = nullptr, std::size_t bytes = 0)
      : device_(std::move(device)), bytes_(bytes) {
    if (device_) device_->under_way().fetch_add(bytes_, std::memory_order_relaxed);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (device_) device_->under_way().fetch_sub(bytes_, std::memory_order_relaxed);
  }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  const std::shared_ptr<Device> device_;
  const std::size_t bytes_;
};

/// One slot for each of Options::devices. A device is absent at first and after a failed start, then coming
/// up, up, and latched after a fault; an absent or latched device is tried again when retry_after has passed.
/// An abandoned one must have ended its work, too, so that a device that is latched because it hangs costs
/// its memory once. Thread safe. In a child of fork() there are no devices, and no call waits for anything.
class Devices {
 public:
  static Devices& instance();

  /// A device for work on so many bytes in host memory: of the devices that are up, the first with the fewest
  /// bytes under way; null at once if none is up. Starts to bring up the devices that are not up.
  Claim acquire(std::size_t bytes);

  /// A device that is up, or the first that comes up, waited for; null, with *why, if no device does.
  std::shared_ptr<Device> acquire_waiting(Reason* why);

  /// The device at `index` of Options::devices, waited for; null if there is none, or with *why.
  std::shared_ptr<Device> acquire_waiting(std::size_t index, Reason* why);

  /// The device that holds the device memory of these jobs, and `word` unless null, waited for; the first of
  /// Options::devices if none does. Null if this device does not come up, or is not among Options::devices,
  /// or if the memory lies on several devices.
  std::shared_ptr<Device> holder_of(std::span<const Job> jobs, const void* word = nullptr);

  /// The device whose context `stream` belongs to, waited for; null if no device that comes up has it.
  std::shared_ptr<Device> owner_of(CUstream stream);

  /// Any device that is up; null if none is. Starts nothing.
  std::shared_ptr<Device> current();

  /// Takes `device` out of service after a fault, until retry_after has passed. Where `device` is not up, it
  /// is at most kept until its work is over.
  void latch(Device& device, const Reason& reason) noexcept;

  /// Forgets the devices and all latches, so that the next acquire() brings devices up anew; for tests and
  /// for use after configure(). The caller makes sure that no job is in flight.
  void reset();

 private:
  friend NeverDestroyed<Devices>;
  struct Slot {
    DeviceState state = DeviceState::none;
    std::shared_ptr<Device> device;  // while the device is up
    std::shared_ptr<Device> tried;   // while it comes up; and abandoned, until its work is over
    Reason reason;                   // the last failure
    std::chrono::steady_clock::time_point retry_at{};
    support::BackgroundThread thread;
  };

  Devices();
  std::span<Slot> slots();
  void start_if_due_locked(Slot& slot);
  void bring_up(Slot& slot);
  void become_locked(Slot& slot, DeviceState state, std::shared_ptr<Device> device,
                     const Reason& reason) noexcept;
  /// The first of these devices that is up, or comes up, and `fits`; null, with *why, if none does.
  std::shared_ptr<Device> wait_for(std::span<Slot> among, Reason* why, const auto& fits);
  void stop();

  /// For all slots. Choosing and counting share a lock, or threads in step would choose the same device.
  std::mutex mutex_;
  std::condition_variable came_up_or_failed_;
  std::array<Slot, most_devices> slots_;
  bool stopped_ = false;
};

}  // namespace ec::kernels::cuda
