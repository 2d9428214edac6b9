// One GPU that is up.
#include "kernels/cuda/device/device.hpp"

#include <fmt/format.h>

#include "kernels/tallies.hpp"

// The fat binaries of the .cu files beside this one, linked in as data (cmake/Cuda.cmake).
extern "C" const unsigned char ec_fatbin_tile_kernel[];
extern "C" const unsigned char ec_fatbin_bit_kernel[];
extern "C" const unsigned char ec_fatbin_table_kernel[];

namespace ec::kernels::cuda {

Device::Scope::Scope(const Device& device)
    : device_(device), result_(device.driver_->ctx_push_current(device.context_)) {}

Device::Scope::~Scope() {
  CUcontext ignored = nullptr;
  if (result_ == CUDA_SUCCESS) device_.driver_->ctx_pop_current(&ignored);
}

Device::Lane::~Lane() {
  if (kept_.stream == nullptr) return;
  std::lock_guard lock(device_->lanes_mutex_);
  device_->free_lanes_.push_back(kept_);
}

std::optional<Device::Lane> Device::borrow_lane() {
  std::lock_guard lock(lanes_mutex_);
  if (free_lanes_.empty()) return std::nullopt;
  const Lane::Kept kept = free_lanes_.back();
  free_lanes_.pop_back();
  return Lane(this, kept);
}

std::string Device::failed(const char* what, CUresult result) const {
  return fmt::format("{}: {}", what, driver_->error_name(result));
}

std::shared_ptr<Device> Device::bring_up(const Options& options, int ordinal, std::string* why) {
  const Driver* driver = Driver::open(options.driver_library, why);
  if (driver == nullptr) return nullptr;
  driver->stay_out_of_captures();
  std::shared_ptr<Device> device(new Device(driver, options));
  *why = device->open_context(ordinal);
  if (!why->empty()) return nullptr;
  Scope scope(*device);
  if (scope.result() != CUDA_SUCCESS) {
    *why = device->failed("cuCtxPushCurrent", scope.result());
    return nullptr;
  }
  *why = device->load_kernels();
  if (why->empty()) *why = device->make_lanes();
  return why->empty() ? device : nullptr;
}

std::string Device::open_context(int ordinal) {
  const Driver& d = *driver_;
  if (const auto r = d.init(0); r != CUDA_SUCCESS) return failed("cuInit", r);
  int count = 0;
  if (const auto r = d.device_get_count(&count); r != CUDA_SUCCESS) return failed("cuDeviceGetCount", r);
  if (ordinal >= count)
    return fmt::format("device {} does not exist: this machine has {} GPU(s)", ordinal, count);
  if (const auto r = d.device_get(&ordinal_, ordinal); r != CUDA_SUCCESS) return failed("cuDeviceGet", r);

  char name[256] = "";
  d.device_get_name(name, sizeof name, ordinal_);
  info_.name = name;
  info_.ordinal = ordinal;
  info_.gpus_of_machine = count;
  d.driver_get_version(&info_.driver_version);
  d.device_get_attribute(&info_.compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal_);
  d.device_get_attribute(&info_.compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal_);
  d.device_get_attribute(&info_.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal_);
  if (d.device_get_attribute(&info_.numa_node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, ordinal_) != CUDA_SUCCESS)
    info_.numa_node = -1;

  if (const auto r = d.primary_ctx_retain(&context_, ordinal_); r != CUDA_SUCCESS) {
    context_ = nullptr;
    return failed("cuDevicePrimaryCtxRetain", r);
  }
  return {};
}

std::string Device::load_kernels() {
  CUmodule tiles = nullptr, bits = nullptr, tables = nullptr;
  CUresult result = load_module(ec_fatbin_tile_kernel, &tiles);
  if (result == CUDA_SUCCESS) result = load_module(ec_fatbin_bit_kernel, &bits);
  if (result == CUDA_SUCCESS) result = load_module(ec_fatbin_table_kernel, &tables);
  std::string why = result == CUDA_SUCCESS ? std::string() : failed("cuModuleLoadData", result);
  for (unsigned i = 0; i < tile_words.size() && why.empty(); ++i)
    why = load_function(tiles, fmt::format("ec_tile_w{}", 8 * tile_words[i]), &tile_kernels_[i]);
  for (unsigned i = 0; i < bit_kernels_.size() && why.empty(); ++i) {
    const auto name = fmt::format("ec_bits_q{}", bit_shapes[i].quads);
    why = load_function(bits, name + "_any", &bit_kernels_[i][0]);
    if (why.empty()) why = load_function(bits, name + "_half", &bit_kernels_[i][1]);
  }
  for (unsigned i = 0; i < table_kernels_.size() && why.empty(); ++i)
    why = load_function(tables, fmt::format("ec_table_r{}_{}", table_kernels[i].rows, table_kernels[i].ones),
                        &table_kernels_[i]);
  return why;
}

CUresult Device::load_module(const void* image, CUmodule* module) {
  std::lock_guard lock(modules_mutex_);
  modules_.reserve(modules_.size() + 1);
  const CUresult result = driver_->module_load_data(module, image);
  if (result == CUDA_SUCCESS) modules_.push_back(*module);
  return result;
}

std::string Device::load_function(CUmodule module, const std::string& name, CUfunction* function) const {
  const auto r = driver_->module_get_function(function, module, name.c_str());
  return r == CUDA_SUCCESS ? std::string() : failed("cuModuleGetFunction", r);
}

CUresult Device::load(const void* image, const char* name, CUmodule* module, CUfunction* function) {
  if (abandoned_) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  const Scope scope(*this);
  if (scope.result() != CUDA_SUCCESS) return scope.result();
  const CUresult result = load_module(image, module);
  return result == CUDA_SUCCESS ? driver_->module_get_function(function, *module, name) : result;
}

void Device::unload(CUmodule module) {
  if (abandoned_) return;
  const Scope scope(*this);
  std::lock_guard lock(modules_mutex_);
  if (std::erase(modules_, module) != 0) driver_->module_unload(module);
}

/// All memory that jobs need is allocated here: an allocation in a job could wait for another that hangs.
std::string Device::make_lanes() {
  constexpr std::size_t page_bytes = 4096;
  const std::size_t slab_bytes = options_.staging_bytes / lane_count / page_bytes * page_bytes;
  const std::size_t staging_bytes = lane_count * slab_bytes;
  void* staging = nullptr;
  if (const auto r = driver_->mem_host_alloc(&staging, staging_bytes,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
      r != CUDA_SUCCESS)
    return failed("cuMemHostAlloc", r);
  staging_ = {static_cast<std::uint8_t*>(staging), staging_bytes};
  add(device_tallies().staging_bytes, staging_bytes);
  CUdeviceptr tables = 0;
  if (const auto r = driver_->mem_alloc(&tables, lane_count * Lane::table_bytes); r != CUDA_SUCCESS)
    return failed("cuMemAlloc", r);
  tables_ = tables;
  add(device_tallies().device_bytes, lane_count * Lane::table_bytes);
  for (unsigned i = 0; i < lane_count; ++i) {
    CUstream stream = nullptr;
    // In order with the default stream, on which a program's plain copies into device memory may still be
    // under way when they return.
    if (const auto r = driver_->stream_create(&stream, CU_STREAM_DEFAULT); r != CUDA_SUCCESS)
      return failed("cuStreamCreate", r);
    free_lanes_.push_back(
        {stream, tables_ + i * Lane::table_bytes, staging_.subspan(i * slab_bytes, slab_bytes)});
  }
  return {};
}

void Device::free_lanes() {
  for (const Lane::Kept& lane : free_lanes_) driver_->stream_destroy(lane.stream);
  if (tables_ != 0) {
    driver_->mem_free(tables_);
    add(device_tallies().device_bytes, -std::uint64_t{lane_count * Lane::table_bytes});
  }
  if (!staging_.empty()) {
    driver_->mem_free_host(staging_.data());
    add(device_tallies().staging_bytes, -std::uint64_t{staging_.size()});
  }
}

void Device::abandon() {
  if (!abandoned_.exchange(true)) add(device_tallies().given_up_bytes, staging_.size());
}

bool Device::owns(CUstream stream) const {
  CUcontext context = nullptr;
  const Scope scope(*this);
  return scope.result() == CUDA_SUCCESS && driver_->stream_get_ctx(stream, &context) == CUDA_SUCCESS &&
         context == context_;
}

std::string Device::lock_preload_arena() {
  Scope scope(*this);
  if (scope.result() != CUDA_SUCCESS) return failed("cuCtxPushCurrent", scope.result());
  std::string outcome;
  arena_ = LockedArena::of_preload(*driver_, ordinal_, options_, &outcome);
  return outcome;
}

Device::~Device() {
  if (abandoned_) {
    if (arena_) arena_->abandon();
    return;
  }
  if (context_ == nullptr) return;
  {
    // After a fault every call here may fail; there is nothing better to do than to go on.
    Scope scope(*this);
    free_lanes();
    arena_.reset();
    for (CUmodule module : modules_) driver_->module_unload(module);
  }
  driver_->primary_ctx_release(ordinal_);
}

}  // namespace ec::kernels::cuda
