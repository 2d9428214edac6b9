// What measuring on a GPU needs and the product does not: functions of the driver, and a clock on the device.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

/// A function that the table of kernels/cuda/device/driver.hpp lacks, of the driver that the devices use.
/// Throws std::runtime_error if there is none.
template <class Function>
Function driver_function(const char* symbol) {
  static void* const library = dlopen(kernels::cuda::current_options().driver_library.c_str(), RTLD_NOW);
  void* const function = library == nullptr ? nullptr : dlsym(library, symbol);
  if (function == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function>(function);
}

/// The same for a call of it, which must succeed.
template <class Function, class... Arguments>
void call_driver(const char* symbol, Arguments... arguments) {
  require(driver_function<Function>(symbol)(arguments...), symbol);
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

/// The address as the driver takes it.
inline CUdeviceptr gpu_address(const std::uint8_t* p) { return reinterpret_cast<CUdeviceptr>(p); }

inline void copy_on_device(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  call_driver<PFN_cuMemcpyDtoDAsync_v3020>("cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}

/// Work on two streams of one device, and how long it takes there. Everything throws std::runtime_error.
class GpuTimer {
 public:
  /// What is put on one or both streams.
  using Work = std::function<void(CUstream, CUstream)>;

  explicit GpuTimer(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const Device::Scope scope(*device_);
    for (CUstream& stream : streams_)
      require(device_->driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (CUevent* event : {&begun_, &ended_[0], &ended_[1]})
      call_driver<PFN_cuEventCreate_v2000>("cuEventCreate", event, 0u);
  }
  ~GpuTimer() {
    const Device::Scope scope(*device_);
    for (CUevent event : {begun_, ended_[0], ended_[1]})
      driver_function<PFN_cuEventDestroy_v4000>("cuEventDestroy_v2")(event);
    for (CUstream stream : streams_) device_->driver().stream_destroy(stream);
  }
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Puts the work on the streams and does not wait for it.
  void start(const Work& work) {
    const Device::Scope scope(*device_);
    record(begun_, streams_[0]);
    work(streams_[0], streams_[1]);
    for (int i = 0; i < 2; ++i) record(ended_[i], streams_[i]);
  }
  /// Waits for it. Seconds from start() to the end on either stream.
  double finish() {
    const Device::Scope scope(*device_);
    float longest = 0;
    for (CUevent event : ended_) {
      float milliseconds = 0;
      call_driver<PFN_cuEventSynchronize_v2000>("cuEventSynchronize", event);
      call_driver<PFN_cuEventElapsedTime_v2000>("cuEventElapsedTime", &milliseconds, begun_, event);
      longest = std::max(longest, milliseconds);
    }
    return 1e-3 * static_cast<double>(longest);
  }

 private:
  static void record(CUevent event, CUstream stream) {
    call_driver<PFN_cuEventRecord_v2000>("cuEventRecord", event, stream);
  }

  std::shared_ptr<Device> device_;
  CUstream streams_[2] = {};
  CUevent begun_ = nullptr;
  CUevent ended_[2] = {};
};

}  // namespace ec::bench
