#include "kernels/cuda/device/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ec::kernels::cuda {

std::unique_ptr<const Driver> Driver::open(const std::string& library, std::string* why) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    *why = fmt::format("no CUDA driver: {}", dlerror());
    return nullptr;
  }
  auto driver = std::make_unique<Driver>();
#define EC_RESOLVE(name, symbol, type)                                                \
  driver->name = reinterpret_cast<type>(dlsym(handle, #symbol));                      \
  if (driver->name == nullptr) {                                                      \
    *why = fmt::format("the CUDA driver {} is too old: it has no " #symbol, library); \
    return nullptr;                                                                   \
  }
  EC_CUDA_DRIVER_FUNCTIONS(EC_RESOLVE)
#undef EC_RESOLVE
#define EC_LOOK_UP(name, symbol, type) driver->name = reinterpret_cast<type>(dlsym(handle, #symbol));
  EC_CUDA_OPTIONAL_DRIVER_FUNCTIONS(EC_LOOK_UP)
#undef EC_LOOK_UP
  return driver;
}

std::string Driver::error_name(CUresult result) const {
  const char* text = nullptr;
  if (get_error_name(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  return fmt::format("CUDA error {}", static_cast<int>(result));
}

}  // namespace ec::kernels::cuda
