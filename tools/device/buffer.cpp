// Memory of any residence for programs that test and measure.
#include "tools/device/buffer.hpp"

#include <algorithm>
#include <cstdlib>

#ifdef EC_WITH_CUDA
#include "kernels/cuda/device/devices.hpp"
#endif

namespace ec::tools {

using kernels::Residence;

Buffer Buffer::allocate(std::size_t bytes, Residence residence, [[maybe_unused]] std::size_t device_index) {
  Buffer buffer;
  buffer.size_ = bytes;
  buffer.residence_ = residence;
  if (residence == Residence::pageable) {
    void* memory = nullptr;  // its size is exact, so that AddressSanitizer sees an overrun
    if (posix_memalign(&memory, 4096, bytes) == 0)
      buffer.data_ = {static_cast<std::uint8_t*>(memory), std::free};
    return buffer;
  }
#ifdef EC_WITH_CUDA
  kernels::cuda::Reason why;
  const auto device = kernels::cuda::Devices::instance().acquire_waiting(device_index, &why);
  if (!device) return buffer;
  kernels::cuda::Device::Scope scope(*device);
  const bool is_pinned = residence == Residence::pinned;
  void* host = nullptr;
  CUdeviceptr address = 0;
  if ((is_pinned ? device->driver().mem_host_alloc(&host, bytes,
                                                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)
                 : device->driver().mem_alloc(&address, bytes)) != CUDA_SUCCESS)
    return buffer;
  const auto free = [device, is_pinned](std::uint8_t* data) {
    kernels::cuda::Device::Scope scope(*device);
    if (is_pinned)
      device->driver().mem_free_host(data);
    else
      device->driver().mem_free(reinterpret_cast<CUdeviceptr>(data));
  };
  buffer.data_ = {is_pinned ? static_cast<std::uint8_t*>(host) : reinterpret_cast<std::uint8_t*>(address),
                  free};
  buffer.device_ = device;
#endif
  return buffer;
}

bool Buffer::upload(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) const {
#ifdef EC_WITH_CUDA
  if (residence_ == Residence::device) {
    kernels::cuda::Device::Scope scope(*device_);
    const auto& driver = device_->driver();
    // The copy returns when the driver has taken the bytes, which is before they are there.
    return driver.memcpy_htod(reinterpret_cast<CUdeviceptr>(to), from, bytes) == CUDA_SUCCESS &&
           driver.stream_synchronize(nullptr) == CUDA_SUCCESS;
  }
#endif
  std::copy_n(from, bytes, to);
  return true;
}

bool Buffer::download(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) const {
#ifdef EC_WITH_CUDA
  if (residence_ == Residence::device) {
    kernels::cuda::Device::Scope scope(*device_);
    return device_->driver().memcpy_dtoh(to, reinterpret_cast<CUdeviceptr>(from), bytes) == CUDA_SUCCESS;
  }
#endif
  std::copy_n(from, bytes, to);
  return true;
}

}  // namespace ec::tools
