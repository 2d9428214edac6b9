// Pinned and device memory for programs that test and measure.
#include "tools/device/buffer.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "kernels/cuda/device/devices.hpp"

namespace ec::kernels::cuda {

Buffer Buffer::allocate(std::size_t bytes, Residence residence, std::size_t device_index) {
  Buffer buffer;
  Reason why;
  auto device = Devices::instance().acquire_waiting(device_index, &why);
  if (!device || residence == Residence::pageable) return buffer;
  Device::Scope scope(*device);
  if (residence == Residence::pinned) {
    void* data = nullptr;
    if (device->driver().mem_host_alloc(&data, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ==
        CUDA_SUCCESS)
      buffer.data_ = static_cast<std::uint8_t*>(data);
  } else {
    CUdeviceptr data = 0;
    if (device->driver().mem_alloc(&data, bytes) == CUDA_SUCCESS)
      buffer.data_ = reinterpret_cast<std::uint8_t*>(data);
  }
  buffer.device_ = std::move(device);
  buffer.size_ = bytes;
  buffer.residence_ = residence;
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& o) noexcept {
  std::swap(device_, o.device_);
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  std::swap(residence_, o.residence_);
  return *this;
}

Buffer::~Buffer() {
  if (!device_ || data_ == nullptr) return;
  Device::Scope scope(*device_);
  if (residence_ == Residence::pinned)
    device_->driver().mem_free_host(data_);
  else
    device_->driver().mem_free(reinterpret_cast<CUdeviceptr>(data_));
}

bool Buffer::upload(std::size_t offset, const std::uint8_t* from, std::size_t bytes) const {
  if (residence_ == Residence::pinned) {
    std::memcpy(data_ + offset, from, bytes);
    return true;
  }
  Device::Scope scope(*device_);
  const Driver& driver = device_->driver();
  // The copy returns when the driver has taken the bytes, which is before they are there.
  return driver.memcpy_htod(reinterpret_cast<CUdeviceptr>(data_ + offset), from, bytes) == CUDA_SUCCESS &&
         driver.stream_synchronize(nullptr) == CUDA_SUCCESS;
}

bool Buffer::download(std::size_t offset, std::uint8_t* to, std::size_t bytes) const {
  if (residence_ == Residence::pinned) {
    std::memcpy(to, data_ + offset, bytes);
    return true;
  }
  Device::Scope scope(*device_);
  return device_->driver().memcpy_dtoh(to, reinterpret_cast<CUdeviceptr>(data_ + offset), bytes) ==
         CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
