// Pinned and device memory for programs that test and measure.
#include "tools/device/buffer.hpp"

#include <cstring>

#include "kernels/cuda/device/devices.hpp"

namespace ec::kernels::cuda {

Buffer Buffer::allocate(std::size_t bytes, Residence residence, std::size_t device_index) {
  Buffer buffer;
  Reason why;
  const auto device = Devices::instance().acquire_waiting(device_index, &why);
  if (!device || residence == Residence::pageable) return buffer;
  Device::Scope scope(*device);
  const bool is_pinned = residence == Residence::pinned;
  void* host = nullptr;
  CUdeviceptr address = 0;
  if ((is_pinned ? device->driver().mem_host_alloc(&host, bytes,
                                                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)
                 : device->driver().mem_alloc(&address, bytes)) != CUDA_SUCCESS)
    return buffer;
  const auto free = [device, is_pinned](std::uint8_t* data) {
    Device::Scope scope(*device);
    if (is_pinned)
      device->driver().mem_free_host(data);
    else
      device->driver().mem_free(reinterpret_cast<CUdeviceptr>(data));
  };
  auto* const data = is_pinned ? static_cast<std::uint8_t*>(host) : reinterpret_cast<std::uint8_t*>(address);
  buffer.data_ = {data, free};
  buffer.device_ = device;
  buffer.size_ = bytes;
  buffer.residence_ = residence;
  return buffer;
}

bool Buffer::upload(std::size_t offset, const std::uint8_t* from, std::size_t bytes) const {
  if (residence_ == Residence::pinned) {
    std::memcpy(data() + offset, from, bytes);
    return true;
  }
  Device::Scope scope(*device_);
  const Driver& driver = device_->driver();
  // The copy returns when the driver has taken the bytes, which is before they are there.
  return driver.memcpy_htod(reinterpret_cast<CUdeviceptr>(data() + offset), from, bytes) == CUDA_SUCCESS &&
         driver.stream_synchronize(nullptr) == CUDA_SUCCESS;
}

bool Buffer::download(std::size_t offset, std::uint8_t* to, std::size_t bytes) const {
  if (residence_ == Residence::pinned) {
    std::memcpy(to, data() + offset, bytes);
    return true;
  }
  Device::Scope scope(*device_);
  return device_->driver().memcpy_dtoh(to, reinterpret_cast<CUdeviceptr>(data() + offset), bytes) ==
         CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
