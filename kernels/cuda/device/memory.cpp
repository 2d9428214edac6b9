#include "kernels/cuda/device/memory.hpp"

#include <array>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "kernels/cuda/device/devices.hpp"

namespace ec::kernels::cuda {

Residence driver_residence(const void* first, std::size_t bytes) noexcept {
  const auto device = Devices::instance().current();
  if (!device) return Residence::pageable;
  Device::Scope scope(*device);
  if (scope.result() != CUDA_SUCCESS) return Residence::pageable;
  unsigned type = 0;
  CUdeviceptr seen = 0;
  CUdeviceptr start = 0;
  std::size_t length = 0;
  std::array attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, attributes.size()> values{&type, &seen, &start, &length};
  // For an address that the driver does not know this succeeds and leaves zeros.
  const auto address = reinterpret_cast<CUdeviceptr>(first);
  if (device->driver().pointer_get_attributes(attributes.size(), attributes.data(), values.data(), address) !=
      CUDA_SUCCESS)
    return Residence::pageable;
  if (type == CU_MEMORYTYPE_DEVICE) return Residence::device;
  const bool whole =
      seen == address && address >= start && address - start <= length && bytes <= length - (address - start);
  return type == CU_MEMORYTYPE_HOST && whole ? Residence::pinned : Residence::pageable;
}

void rise_for_preload() noexcept try {
  if (has_preload()) (void)Devices::instance().acquire(0);
} catch (const std::system_error&) {
  // No thread to be had now; the next caller tries again.
} catch (const std::bad_alloc&) {
  // The same.
}

Buffer Buffer::allocate(std::size_t bytes, Residence residence, std::size_t device_index) {
  Buffer buffer;
  std::string why;
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
