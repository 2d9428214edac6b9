// Kernels of fat binaries that only measurements have.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "kernels/cuda/device/device.hpp"

namespace ec::kernels::cuda::ladder {

/// The kernel `name` of the fat binary `image`, loaded when first asked for; it stays as long as the device,
/// which must stay as long as the process. The device's context must be current. Thread safe.
inline CUresult loaded_kernel(Device& device, const unsigned char* image, const char* name,
                              CUfunction* function) {
  static std::mutex mutex;
  static std::map<std::tuple<const Device*, const unsigned char*, std::string>, CUfunction> loaded;
  std::lock_guard lock(mutex);
  CUfunction& there = loaded[{&device, image, name}];
  CUmodule module = nullptr;
  const auto r = there != nullptr ? CUDA_SUCCESS : device.load(image, name, &module, &there);
  if (r != CUDA_SUCCESS) there = nullptr;
  *function = there;
  return r;
}

}  // namespace ec::kernels::cuda::ladder
