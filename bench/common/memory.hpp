// Memory of any residence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/region.hpp"
#ifdef EC_WITH_CUDA
#include "tools/device/buffer.hpp"
#endif

namespace ec::bench {

/// Page-aligned; freed with the object.
class Memory {
 public:
  /// device_index: for memory of a device, its place in the list of devices. Throws std::runtime_error if
  /// there is no such memory on this machine.
  Memory(kernels::Residence residence, std::size_t bytes, std::size_t device_index = 0);

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  kernels::Residence residence() const { return residence_; }
  /// Synchronous; any thread. Throw std::runtime_error on a fault of the device.
  void write(std::uint8_t* to, std::span<const std::uint8_t> from) const;
  void read(const std::uint8_t* from, std::span<std::uint8_t> to) const;

 private:
  struct Free {
    void operator()(std::uint8_t* p) const;
  };
  kernels::Residence residence_;
  std::size_t size_;
  std::uint8_t* data_ = nullptr;
  std::unique_ptr<std::uint8_t, Free> pageable_;
#ifdef EC_WITH_CUDA
  kernels::cuda::Buffer buffer_;
#endif
};

}  // namespace ec::bench
