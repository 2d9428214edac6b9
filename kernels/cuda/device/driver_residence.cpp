// What the driver knows of memory, and a device for a process whose memory is to be known to it.
#include "kernels/cuda/device/driver_residence.hpp"

#include <array>
#include <new>

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

void bring_up_for_preload() noexcept try {
  if (has_preload()) (void)Devices::instance().acquire(0);
} catch (const std::bad_alloc&) {
  // The next caller tries again.
}

}  // namespace ec::kernels::cuda
