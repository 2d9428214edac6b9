// Pinned and device memory for programs that test and measure. Its driver functions are among those that a
// driver need not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/region.hpp"

namespace ec::kernels::cuda {

class Device;

/// A buffer of pinned or device memory; keeps the device up while it lives. Copies share the memory.
class Buffer {
 public:
  /// Empty if the device is not up and cannot be brought up, or has no memory. residence: pinned or device;
  /// pinned memory is pinned for all devices. device_index: which of Options::devices.
  static Buffer allocate(std::size_t bytes, Residence residence, std::size_t device_index = 0);

  explicit operator bool() const { return bool{data_}; }
  std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  Residence residence() const { return residence_; }

  /// Copies `bytes` from host memory into the buffer at `offset`, or out of it; synchronous. false on a
  /// fault.
  bool upload(std::size_t offset, const std::uint8_t* from, std::size_t bytes) const;
  bool download(std::size_t offset, std::uint8_t* to, std::size_t bytes) const;

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<std::uint8_t> data_;
  std::size_t size_ = 0;
  Residence residence_ = Residence::pinned;
};

}  // namespace ec::kernels::cuda
