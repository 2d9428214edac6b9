// The calls of the CUDA driver that the probe needs, opened at run time.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace probe {

struct Driver {
  Driver() {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(fmt::format("no CUDA driver: {}", dlerror()));
  }
  template <class... Args>
  void operator()(const char* name, Args... args) const {
    auto* const function = reinterpret_cast<CUresult (*)(Args...)>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(fmt::format("the driver has no {}", name));
    if (const CUresult r = function(args...); r != CUDA_SUCCESS)
      throw std::runtime_error(fmt::format("{}: error {}", name, static_cast<int>(r)));
  }
  void* library;
};

}  // namespace probe
