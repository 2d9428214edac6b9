// Memory of any residence, for programs that measure.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>

#include "kernels/region.hpp"
#ifdef EC_WITH_CUDA
#include "tools/device/buffer.hpp"
#endif

namespace ec::tools {

/// Page-aligned; freed with the object. Everything throws std::runtime_error.
class Memory {
 public:
  /// device_index: for memory of a device, its place in the list of devices.
  Memory(kernels::Residence residence, std::size_t bytes, [[maybe_unused]] std::size_t device_index = 0)
      : residence_(residence), size_(bytes) {
    constexpr std::size_t page = 4096;
    if (residence == kernels::Residence::pageable) {
      pageable_.reset(std::aligned_alloc(page, (bytes + page - 1) / page * page));
      data_ = static_cast<std::uint8_t*>(pageable_.get());
    }
#ifdef EC_WITH_CUDA
    if (residence != kernels::Residence::pageable)
      buffer_ = kernels::cuda::Buffer::allocate(bytes, residence, device_index);
    if (buffer_) data_ = buffer_.data();
#endif
    if (data_ == nullptr)
      throw std::runtime_error(
          fmt::format("no {} memory of {} bytes on this machine", kernels::name(residence), bytes));
  }

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  kernels::Residence residence() const { return residence_; }

  /// Synchronous; any thread.
  void write(std::uint8_t* to, std::span<const std::uint8_t> from) const {
    if (residence_ != kernels::Residence::device) std::memcpy(to, from.data(), from.size());
#ifdef EC_WITH_CUDA
    else if (!buffer_.upload(static_cast<std::size_t>(to - data_), from.data(), from.size()))
      throw std::runtime_error("cannot copy to the device");
#endif
  }
  void read(const std::uint8_t* from, std::span<std::uint8_t> to) const {
    if (residence_ != kernels::Residence::device) std::memcpy(to.data(), from, to.size());
#ifdef EC_WITH_CUDA
    else if (!buffer_.download(static_cast<std::size_t>(from - data_), to.data(), to.size()))
      throw std::runtime_error("cannot copy from the device");
#endif
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  kernels::Residence residence_;
  std::size_t size_;
  std::uint8_t* data_ = nullptr;
  std::unique_ptr<void, Free> pageable_;
#ifdef EC_WITH_CUDA
  kernels::cuda::Buffer buffer_;
#endif
};

}  // namespace ec::tools
