// The devices of this process, and which of them a job goes to.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"

namespace ec::kernels::cuda {

/// One slot for each of Options::devices. Thread safe.
class Devices {
 public:
  static constexpr std::size_t most = 16;

  static Devices& instance();

  /// For work in host memory: of the devices that are up the one with the least under way, and of those the
  /// one nearest to the calling thread, by NUMA node; null at once if none is up. Those that are not up are
  /// started on their way there.
  std::shared_ptr<Device> acquire();

  /// As acquire(), but if none is up, waits for the first of them to come up or fail to; *why says why.
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
};

}  // namespace ec::kernels::cuda
