// The CUDA driver, opened at run time.
#include "kernels/cuda/device/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <stdexcept>

namespace ec::kernels::cuda {

const Driver& Driver::open(const std::string& library) {
  static std::mutex mutex;
  static auto* const opened = new std::map<std::string, Driver>;
  std::lock_guard lock(mutex);
  if (const auto at = opened->find(library); at != opened->end()) return at->second;
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(fmt::format("no CUDA driver: {}", dlerror()));
  Driver driver;
#define EC_LOOK_UP(name, symbol, type)                          \
  driver.name = reinterpret_cast<type>(dlsym(handle, #symbol)); \
  if (driver.name == nullptr)                                   \
    throw std::runtime_error("the CUDA driver " + library + " is too old: it has no " #symbol);
  EC_CUDA_DRIVER_FUNCTIONS(EC_LOOK_UP)
#undef EC_LOOK_UP
  return opened->emplace(library, driver).first->second;
}

bool is_over(CUresult answer) {
  constexpr auto ends = std::to_array<CUresult>(
      {CUDA_SUCCESS, CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_ECC_UNCORRECTABLE,
       CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
       CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
       CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
       CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED,
       CUDA_ERROR_MPS_CLIENT_TERMINATED});
  return std::ranges::find(ends, answer) != ends.end();
}

support::Text<63> Driver::error_name(CUresult result) const noexcept {
  const char* text = nullptr;
  if (get_error_name(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  return {"CUDA error {}", static_cast<int>(result)};
}

}  // namespace ec::kernels::cuda
