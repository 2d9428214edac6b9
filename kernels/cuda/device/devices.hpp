// The devices of this process, and which of them a job goes to.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device_slot.hpp"

namespace ec::kernels::cuda {

/// A device for one job, which counts as under way there while this lives. Converts to the device, or null.
class Claim {
 public:
  Claim() = default;
  /// Of bytes that are counted in *under_way already, or of none if that is null.
  explicit Claim(std::shared_ptr<Device> device, std::atomic<std::size_t>* under_way = nullptr,
                 std::size_t bytes = 0)
      : device_(std::move(device)), under_way_(under_way), bytes_(bytes) {}
  Claim(Claim&& o) noexcept
      : device_(std::move(o.device_)), under_way_(std::exchange(o.under_way_, nullptr)), bytes_(o.bytes_) {}
  Claim& operator=(Claim&&) = delete;
  ~Claim() {
    if (under_way_ != nullptr) under_way_->fetch_sub(bytes_, std::memory_order_relaxed);
  }
  operator const std::shared_ptr<Device>&() const { return device_; }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  std::shared_ptr<Device> device_;
  std::atomic<std::size_t>* under_way_ = nullptr;
  std::size_t bytes_ = 0;
};

/// One slot for each of Options::devices. Thread safe. In a child of fork() there are no devices, and no call
/// waits for anything.
class Devices {
 public:
  static constexpr std::size_t most = 16;

  static Devices& instance();

  /// Whether this is a child of fork() whose parent had devices, or tried to: it has none, then.
  static bool in_forked_child() noexcept;

  /// For work on so many bytes in host memory: of the devices that are up the one with the fewest bytes under
  /// way, and of those the one nearest to the calling thread, by NUMA node; null at once if none is up. Those
  /// that are not up are started on their way there.
  Claim acquire(std::size_t bytes);

  /// One that is up, or the first that comes up, waited for; null if none does, *why says why.
  std::shared_ptr<Device> acquire_waiting(std::string* why);

  /// The one at `index` of Options::devices, waited for; null if there is no such one, or with *why.
  std::shared_ptr<Device> acquire_waiting(std::size_t index, std::string* why);

  /// The one that holds the device memory of these jobs, waited for. Null, with *why, if that is not up, is
  /// not among Options::devices, or if the chunks lie on several.
  std::shared_ptr<Device> holder_of(std::span<const Job> jobs, std::string* why);

  /// The one whose context `stream` belongs to; null if that is none that is up.
  std::shared_ptr<Device> owner_of(CUstream stream);

  /// Any that is up; null if none is. Starts nothing.
  std::shared_ptr<Device> current();

  /// How many are up now.
  std::size_t up();

  /// Takes `device` out of service after a fault, until retry_after has passed. Later calls for it do
  /// nothing.
  void latch(const std::shared_ptr<Device>& device, const std::string& reason);

  /// Forgets the devices and all latches, so that the next acquire() brings them up anew; for tests and for
  /// use after configure(). The caller sees to it that no job is in flight.
  void reset();

 private:
  Devices();
  std::span<DeviceSlot> slots();

  std::array<DeviceSlot, most> slots_;
  /// Choosing and counting are one, or threads in step would all choose the same.
  std::mutex choice_mutex_;
  std::array<std::atomic<std::size_t>, most> under_way_{};
};

}  // namespace ec::kernels::cuda
