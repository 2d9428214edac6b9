// The devices of this process: how they come up and are latched off, and which of them a job goes to.
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
#include "kernels/transfer.hpp"
#include "support/background_thread.hpp"
#include "support/process_life.hpp"

namespace ec::kernels::cuda {

/// A device for one job, which counts as under way there while this lives. Converts to the device, or null.
class Claim {
 public:
  Claim() = default;
  /// Counts `bytes` in *under_way, or nothing if that is null.
  explicit Claim(std::shared_ptr<Device> device, std::atomic<std::size_t>* under_way = nullptr,
                 std::size_t bytes = 0)
      : device_(std::move(device)), under_way_(under_way), bytes_(bytes) {
    if (under_way_ != nullptr) under_way_->fetch_add(bytes_, std::memory_order_relaxed);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (under_way_ != nullptr) under_way_->fetch_sub(bytes_, std::memory_order_relaxed);
  }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  std::shared_ptr<Device> device_;
  std::atomic<std::size_t>* under_way_ = nullptr;
  std::size_t bytes_ = 0;
};

/// One slot for each of Options::devices. A device is absent at first and when it was tried in vain, then
/// coming up, up, and latched after a fault; from absent and latched it is tried again when retry_after has
/// passed. Thread safe. In a child of fork() there are no devices, and no call waits for anything.
class Devices {
 public:
  static constexpr std::size_t most = 16;

  static Devices& instance();

  /// Whether this is a child of fork() whose parent had devices, or tried to: it has none, then.
  static bool in_forked_child() noexcept;

  /// For work on so many bytes in host memory: of the devices that are up the one with the fewest bytes under
  /// way, the first of those; null at once if none is up. Those that are not up are started on their way
  /// there.
  Claim acquire(std::size_t bytes);

  /// One that is up, or the first that comes up, waited for; null if none does, *why says why.
  std::shared_ptr<Device> acquire_waiting(Reason* why);

  /// The one at `index` of Options::devices, waited for; null if there is no such one, or with *why.
  std::shared_ptr<Device> acquire_waiting(std::size_t index, Reason* why);

  /// The one that holds the device memory of these jobs or pieces, waited for. Null, with *why, if that is
  /// not up, is not among Options::devices, or if the chunks lie on several.
  std::shared_ptr<Device> holder_of(std::span<const Job> jobs, Reason* why);
  std::shared_ptr<Device> holder_of(std::span<const Transfer> pieces, Reason* why);

  /// The one whose context `stream` belongs to; null if that is none that is up.
  std::shared_ptr<Device> owner_of(CUstream stream);

  /// Any that is up; null if none is. Starts nothing.
  std::shared_ptr<Device> current();

  /// How many are up now.
  std::size_t up();

  /// Takes `device` out of service after a fault, until retry_after has passed. Nothing is done for one that
  /// is not up.
  void latch(const std::shared_ptr<Device>& device, const Reason& reason) noexcept;

  /// Forgets the devices and all latches, so that the next acquire() brings them up anew; for tests and for
  /// use after configure(). The caller sees to it that no job is in flight.
  void reset();

 private:
  friend NeverDestroyed<Devices>;
  struct Slot {
    DeviceState state = DeviceState::none;
    std::shared_ptr<Device> device;  // while it is up
    Reason reason;                   // of the last failure
    std::chrono::steady_clock::time_point retry_at{};
    std::atomic<std::size_t> under_way{0};  // bytes
    support::BackgroundThread thread;
  };

  Devices();
  std::span<Slot> slots();
  void start_if_due_locked(Slot& slot);
  void bring_up(Slot& slot);
  std::shared_ptr<Device> try_to_bring_up(const Slot& slot, const Options& options, Reason* why);
  void become_locked(Slot& slot, DeviceState state, std::shared_ptr<Device> device,
                     const Reason& reason) noexcept;
  std::shared_ptr<Device> holder_of_chunks(auto chunks, Reason* why);
  std::shared_ptr<Device> wait_for(Slot& slot, Reason* why);
  void stop();

  /// Of all slots. Choosing a device and counting are one, or threads in step would all choose the same.
  std::mutex mutex_;
  std::condition_variable came_up_or_failed_;
  std::array<Slot, most> slots_;
  bool stopped_ = false;
};

}  // namespace ec::kernels::cuda
