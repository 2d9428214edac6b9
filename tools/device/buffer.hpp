// Memory of any residence for programs that test and measure. Its driver functions are among those that a
// driver need not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/residence.hpp"

namespace ec::kernels::cuda {
class Device;
}

namespace ec::tools {

/// Memory, aligned to a page; keeps its device up while it lives. Copies share the memory.
class Buffer {
 public:
  /// Empty if there is no memory, or the device is not up and cannot be brought up. Pinned memory is pinned
  /// for all devices. device_index: which of Options::devices.
  static Buffer allocate(std::size_t bytes, kernels::Residence residence, std::size_t device_index = 0);

  explicit operator bool() const { return bool{data_}; }
  std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  kernels::Residence residence() const { return residence_; }

  /// Copies from the host into the buffer, or out of it; synchronous, any thread. false on a fault.
  bool upload(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) const;
  bool download(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) const;

 private:
  std::shared_ptr<kernels::cuda::Device> device_;
  std::shared_ptr<std::uint8_t> data_;
  std::size_t size_ = 0;
  kernels::Residence residence_ = kernels::Residence::pageable;
};

}  // namespace ec::tools
