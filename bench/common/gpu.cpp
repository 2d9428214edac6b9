// Looks the driver's functions up, loads kernels, and times work by events.
#include "bench/common/gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/device/devices.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {

const GpuDriver& gpu_driver() {
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

void require(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("{}: the driver answers {}", call, static_cast<int>(result)));
}

std::vector<std::shared_ptr<Device>> bring_up_devices(const std::string& subcommand) {
  auto options = codec::node_settings().device;
  options.log = [](const char* line) { fmt::print(stderr, "{}\n", line); };
  kernels::cuda::configure(options);
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t i = 0; i < kernels::cuda::device_count(); ++i) {
    std::string why;
    devices.push_back(kernels::cuda::Devices::instance().acquire_waiting(i, &why));
    if (!devices.back())
      throw std::runtime_error(
          fmt::format("sub-command {} measures a device, and there is none: {}", subcommand, why));
  }
  return devices;
}

std::pair<std::string, std::string> gpu_line(const Device& device) {
  const auto& info = device.info();
  return {"gpu", fmt::format("{}, compute capability {}.{}, {} multiprocessors", info.name,
                             info.compute_major, info.compute_minor, info.multiprocessors)};
}

GpuKernels::~GpuKernels() {
  const Device::Scope scope(*device_);
  for (const auto& [image, module] : modules_) device_->driver().module_unload(module);
}

CUfunction GpuKernels::find(const unsigned char* image, const std::string& name) {
  if (const auto known = functions_.find(name); known != functions_.end()) return known->second;
  CUmodule& module = modules_[image];
  if (module == nullptr) require(device_->driver().module_load_data(&module, image), "cuModuleLoadData");
  CUfunction function = nullptr;
  const CUresult result = device_->driver().module_get_function(&function, module, name.c_str());
  if (result != CUDA_ERROR_NOT_FOUND) require(result, "cuModuleGetFunction");
  return functions_[name] = function;
}

void GpuKernels::launch(const unsigned char* image, const std::string& name,
                        std::pair<unsigned, unsigned> grid, std::pair<unsigned, unsigned> block,
                        std::size_t shared_bytes, void* parameter, CUstream stream) {
  void* parameters[] = {parameter};
  require(device_->driver().launch_kernel(find(image, name), grid.first, grid.second, 1, block.first,
                                          block.second, 1, static_cast<unsigned>(shared_bytes), stream,
                                          parameters, nullptr),
          "cuLaunchKernel");
}

GpuTimer::GpuTimer(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Device::Scope scope(*device_);
  for (CUstream& stream : streams_)
    require(device_->driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (CUevent* event : {&begun_, &ended_[0], &ended_[1]})
    require(gpu_driver().event_create(event, 0), "cuEventCreate");
}

GpuTimer::~GpuTimer() {
  const Device::Scope scope(*device_);
  for (CUevent event : {begun_, ended_[0], ended_[1]})
    if (event != nullptr) gpu_driver().event_destroy(event);
  for (CUstream stream : streams_)
    if (stream != nullptr) device_->driver().stream_destroy(stream);
}

void GpuTimer::start(const Work& work) {
  const Device::Scope scope(*device_);
  require(gpu_driver().event_record(begun_, streams_[0]), "cuEventRecord");
  work(streams_[0], streams_[1]);
  for (int i = 0; i < 2; ++i) require(gpu_driver().event_record(ended_[i], streams_[i]), "cuEventRecord");
}

double GpuTimer::finish() {
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

}  // namespace ec::bench
