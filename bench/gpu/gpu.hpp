// What measuring on a GPU needs and the product does not: functions of the driver, kernels of the bench's
// own, and a clock on the device.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
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

// X(name, symbol, type): functions that the table of kernels/cuda/device/driver.hpp lacks.
#define EC_BENCH_DRIVER_FUNCTIONS(X)                                      \
  X(event_create, cuEventCreate, PFN_cuEventCreate_v2000)                 \
  X(event_destroy, cuEventDestroy_v2, PFN_cuEventDestroy_v4000)           \
  X(event_record, cuEventRecord, PFN_cuEventRecord_v2000)                 \
  X(event_synchronize, cuEventSynchronize, PFN_cuEventSynchronize_v2000)  \
  X(event_elapsed_time, cuEventElapsedTime, PFN_cuEventElapsedTime_v2000) \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020)

struct GpuDriver {
#define EC_DECLARE(name, symbol, type) type name = nullptr;
  EC_BENCH_DRIVER_FUNCTIONS(EC_DECLARE)
#undef EC_DECLARE
};

/// Those of the driver that the devices use. Throws std::runtime_error if it lacks one.
inline const GpuDriver& gpu_driver() {
  static const GpuDriver driver = [] {
    const std::string file = kernels::cuda::current_options().driver_library;
    void* library = dlopen(file.c_str(), RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(dlerror());
    GpuDriver d;
#define EC_LOOK_UP(name, symbol, type)                      \
  d.name = reinterpret_cast<type>(dlsym(library, #symbol)); \
  if (d.name == nullptr) throw std::runtime_error(fmt::format("{} has no " #symbol, file));
    EC_BENCH_DRIVER_FUNCTIONS(EC_LOOK_UP)
#undef EC_LOOK_UP
    return d;
  }();
  return driver;
}

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

/// The address as the driver takes it.
inline CUdeviceptr gpu_address(const std::uint8_t* p) { return reinterpret_cast<CUdeviceptr>(p); }

/// Work on two streams of one device, and how long it takes there.
class GpuTimer {
 public:
  /// What is put on one or both streams.
  using Work = std::function<void(CUstream, CUstream)>;

  /// Throws std::runtime_error.
  explicit GpuTimer(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const Device::Scope scope(*device_);
    for (CUstream& stream : streams_)
      require(device_->driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (CUevent* event : {&begun_, &ended_[0], &ended_[1]})
      require(gpu_driver().event_create(event, 0), "cuEventCreate");
  }
  ~GpuTimer() {
    const Device::Scope scope(*device_);
    for (CUevent event : {begun_, ended_[0], ended_[1]})
      if (event != nullptr) gpu_driver().event_destroy(event);
    for (CUstream stream : streams_)
      if (stream != nullptr) device_->driver().stream_destroy(stream);
  }
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Puts the work on the streams and does not wait for it.
  void start(const Work& work) {
    const Device::Scope scope(*device_);
    require(gpu_driver().event_record(begun_, streams_[0]), "cuEventRecord");
    work(streams_[0], streams_[1]);
    for (int i = 0; i < 2; ++i) require(gpu_driver().event_record(ended_[i], streams_[i]), "cuEventRecord");
  }
  /// Waits for it. Seconds from start() to the end on either stream.
  double finish() {
    const Device::Scope scope(*device_);
    float longest = 0;
    for (CUevent event : ended_) {
      float milliseconds = 0;
      require(gpu_driver().event_synchronize(event), "cuEventSynchronize");
      require(gpu_driver().event_elapsed_time(&milliseconds, begun_, event), "cuEventElapsedTime");
      longest = std::max(longest, milliseconds);
    }
    return 1e-3 * static_cast<double>(longest);
  }

 private:
  std::shared_ptr<Device> device_;
  CUstream streams_[2] = {};
  CUevent begun_ = nullptr;
  CUevent ended_[2] = {};
};

}  // namespace ec::bench
