// Pinned and device memory for programs that test and measure. Its driver functions are among those that a
// driver need not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/region.hpp"

namespace ec::kernels::cuda {

class Device;

/// A buffer of pinned or device memory, owned; keeps the device up while it lives. Movable.
class Buffer {
 public:
  /// Empty if the device is not up and cannot be brought up, or has no memory. residence: pinned or device;
  /// pinned memory is pinned for all devices. device_index: which of Options::devices.
  static Buffer allocate(std::size_t bytes, Residence residence, std::size_t device_index = 0);

  Buffer() = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&& o) noexcept;
  ~Buffer();

  explicit operator bool() const { return data_ != nullptr; }
  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  Residence residence() const { return residence_; }

  /// Copies `bytes` from host memory into the buffer at `offset`, or out of it; synchronous. false on a
  /// fault.
  bool upload(std::size_t offset, const std::uint8_t* from, std::size_t bytes) const;
  bool download(std::size_t offset, std::uint8_t* to, std::size_t bytes) const;

 private:
  std::shared_ptr<Device> device_;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  Residence residence_ = Residence::pinned;
};

}  // namespace ec::kernels::cuda
