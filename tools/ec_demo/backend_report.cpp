#include "tools/ec_demo/backend_report.hpp"

#include <fmt/format.h>

#include <string_view>

#include "kernels/backends.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#include "plugin/codec/settings/settings.hpp"
#endif

namespace ec::tools {
namespace {

#ifdef EC_WITH_CUDA
std::string device_line() {
  kernels::cuda::configure(codec::node_settings().device);
  std::string why;
  const auto device = kernels::cuda::bring_up(&why);
  if (!device) return fmt::format("in this build, but not usable on this machine: {}", why);
  return fmt::format("{} (GPU {}, compute capability {}.{}, driver for CUDA {}.{})", device->name,
                     device->ordinal, device->compute_major, device->compute_minor,
                     device->driver_version / 1000, device->driver_version % 1000 / 10);
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
#ifndef EC_WITH_CUDA
  report += fmt::format("{:<10} not in this build: {}\n", "cuda", EC_CUDA_ABSENT);
#endif
  for (const kernels::Backend* backend : kernels::backends())
    report += fmt::format("{:<10} {}\n", backend->name(), state_of(backend->name()));
  return report;
}

}  // namespace ec::tools
