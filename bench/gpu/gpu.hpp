// What measuring on a GPU needs and the product does not.
#pragma once

#include <cuda.h>
#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {

using kernels::cuda::Device;

/// Throws std::runtime_error that names the call and the driver's answer, unless `result` is CUDA_SUCCESS.
inline void require(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("{}: the driver answers {}", call, static_cast<int>(result)));
}

/// All devices that the settings of this node name, as in a daemon. Throws std::runtime_error that names what
/// wants them.
inline std::vector<std::shared_ptr<Device>> bring_up_devices(const std::string& subcommand) {
  auto options = codec::node_settings().device;
  options.alone_in_process = true;
  options.log = [](const char* line) { fmt::print(stderr, "{}\n", line); };
  kernels::cuda::configure(options);
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t i = 0; i < kernels::cuda::device_count(); ++i) {
    kernels::cuda::Reason why;
    devices.push_back(kernels::cuda::Devices::instance().acquire_waiting(i, &why));
    if (!devices.back())
      throw std::runtime_error(
          fmt::format("sub-command {} measures a device, and there is none: {}", subcommand, why.view()));
  }
  return devices;
}

/// Of the header of a report.
inline std::pair<std::string, std::string> gpu_line(const Device& device) {
  const auto& info = device.info();
  return {"gpu", fmt::format("{}, compute capability {}.{}, {} multiprocessors", info.name,
                             info.compute_major, info.compute_minor, info.multiprocessors)};
}

/// A stream. Throws std::runtime_error if all are in use.
inline auto borrow_lane(Device& device) {
  auto lane = device.borrow_lane();
  if (!lane) throw std::runtime_error("every stream of the device is in use");
  return lane;
}

/// The address as the driver takes it.
inline CUdeviceptr gpu_address(const std::uint8_t* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace ec::bench
