#include "tools/backend_report.hpp"

#include <fmt/format.h>

#include <string_view>

#include "kernels/backends.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/driver.hpp"
#include "kernels/cuda/options.hpp"
#endif

namespace ec::tools {
namespace {

#ifdef EC_WITH_CUDA
std::string device_line() {
  const auto options = kernels::cuda::current_options();
  std::string why;
  const auto driver = kernels::cuda::Driver::open(options.driver_library, &why);
  if (driver == nullptr) return fmt::format("built in, no NVIDIA driver on this machine ({})", why);
  if (const CUresult result = driver->init(0); result != CUDA_SUCCESS)
    return fmt::format("built in, the driver finds no usable GPU ({})", driver->error_name(result));
  CUdevice device = 0;
  if (const CUresult result = driver->device_get(&device, options.device); result != CUDA_SUCCESS)
    return fmt::format("built in, no GPU {} ({})", options.device, driver->error_name(result));
  char name[128] = {};
  if (const CUresult result = driver->device_get_name(name, sizeof name, device); result != CUDA_SUCCESS)
    return fmt::format("built in, GPU {} has no name ({})", options.device, driver->error_name(result));
  return fmt::format("GPU {}: {}", options.device, name);
}
#endif

std::string state_of(std::string_view backend) {
#ifdef EC_WITH_CUDA
  if (backend == "cuda") return device_line();
#endif
  if (backend == "isal") return "Intel ISA-L, on the CPU";
  if (backend == "reference") return "plain C++, on the CPU";
  return "on the CPU";
}

}  // namespace

std::string backend_report() {
  std::string report;
  if (kernels::find_backend("cuda") == nullptr)
    report += fmt::format("{:<10} not in this build: nvcc was not found or EC_WITH_CUDA is OFF\n", "cuda");
  for (const kernels::Backend* backend : kernels::backends())
    report += fmt::format("{:<10} {}\n", backend->name(), state_of(backend->name()));
  return report;
}

}  // namespace ec::tools
