// What measuring on a GPU needs and the product does not: functions of the driver, kernels of the bench's
// own, and a clock on the device.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device/device.hpp"

namespace ec::bench {

using kernels::cuda::Device;

// X(name, symbol, type): functions that the table of kernels/cuda/device/driver.hpp lacks.
#define EC_BENCH_DRIVER_FUNCTIONS(X)                                      \
  X(event_create, cuEventCreate, PFN_cuEventCreate_v2000)                 \
  X(event_destroy, cuEventDestroy_v2, PFN_cuEventDestroy_v4000)           \
  X(event_record, cuEventRecord, PFN_cuEventRecord_v2000)                 \
  X(event_synchronize, cuEventSynchronize, PFN_cuEventSynchronize_v2000)  \
  X(event_elapsed_time, cuEventElapsedTime, PFN_cuEventElapsedTime_v2000) \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020) \
  X(memset_d8_async, cuMemsetD8Async, PFN_cuMemsetD8Async_v3020)

struct GpuDriver {
#define EC_DECLARE(name, symbol, type) type name = nullptr;
  EC_BENCH_DRIVER_FUNCTIONS(EC_DECLARE)
#undef EC_DECLARE
};

/// Those of the driver that the devices use. Throws std::runtime_error if it lacks one.
const GpuDriver& gpu_driver();

/// Throws std::runtime_error that names the call and the driver's answer, unless `result` is CUDA_SUCCESS.
void require(CUresult result, const char* call);

/// All devices that the settings of this node name, as in a daemon. Throws std::runtime_error that names what
/// wants them.
std::vector<std::shared_ptr<Device>> bring_up_devices(const std::string& subcommand);

/// Of the header of a report.
std::pair<std::string, std::string> gpu_line(const Device& device);

/// The address as the driver takes it.
inline CUdeviceptr gpu_address(const std::uint8_t* p) { return reinterpret_cast<CUdeviceptr>(p); }

/// Kernels out of fat binaries, for one device, which outlives them.
class GpuKernels {
 public:
  explicit GpuKernels(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~GpuKernels();
  GpuKernels(const GpuKernels&) = delete;
  GpuKernels& operator=(const GpuKernels&) = delete;

  const Device& device() const { return *device_; }
  /// `name` out of `image`; null if the driver knows no such kernel. Throws std::runtime_error. The device's
  /// context must be current.
  CUfunction find(const unsigned char* image, const std::string& name);
  /// Launches it with its one parameter. As find().
  void launch(const unsigned char* image, const std::string& name, std::pair<unsigned, unsigned> grid,
              std::pair<unsigned, unsigned> block, std::size_t shared_bytes, void* parameter,
              CUstream stream);

 private:
  std::shared_ptr<Device> device_;
  std::map<const unsigned char*, CUmodule> modules_;
  std::map<std::string, CUfunction> functions_;
};

/// Work on two streams of one device, and how long it takes there.
class GpuTimer {
 public:
  /// What is put on one or both streams.
  using Work = std::function<void(CUstream, CUstream)>;

  /// Throws std::runtime_error.
  explicit GpuTimer(std::shared_ptr<Device> device);
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Puts the work on the streams and does not wait for it.
  void start(const Work& work);
  /// Waits for it. Seconds from start() to the end on either stream.
  double finish();

 private:
  std::shared_ptr<Device> device_;
  CUstream streams_[2] = {};
  CUevent begun_ = nullptr;
  CUevent ended_[2] = {};
};

}  // namespace ec::bench
