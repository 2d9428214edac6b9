// One GPU that is up.
#include "kernels/cuda/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/device_stats.hpp"

// The fat binaries of the .cu files in kernels/cuda/kernels, linked in as data (cmake/Cuda.cmake).
extern "C" const unsigned char ec_fatbin_tile_kernel[];
extern "C" const unsigned char ec_fatbin_bit_kernel[];
extern "C" const unsigned char ec_fatbin_paired_kernel[];
extern "C" const unsigned char ec_fatbin_table_kernel[];

namespace ec::kernels::cuda {
Device::Scope::Scope(const Device& device)
    : device_(device),
      captures_spared_(*device.driver_),
      result_(device.driver_->ctx_push_current(device.context_)) {}

Device::Scope::~Scope() {
  CUcontext ignored = nullptr;
  if (result_ == CUDA_SUCCESS) device_.driver_->ctx_pop_current(&ignored);
}

void Device::GiveBack::operator()(Lane* lane) const {
  std::lock_guard lock(device->lanes_mutex_);
  device->free_lanes_.push_back(lane);
}

Device::BorrowedLane Device::borrow_lane() {
  std::lock_guard lock(lanes_mutex_);
  if (free_lanes_.empty()) return {nullptr, {this}};
  Lane* lane = free_lanes_.back();
  free_lanes_.pop_back();
  return {lane, {this}};
}

void Device::check(const char* call, CUresult result) const {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("{}: {}", call, driver_->error_name(result).view()));
}

std::shared_ptr<Device> Device::bring_up(const Options& options, int ordinal) {
  const Driver& driver = Driver::open(options.driver_library);
  const CapturesSpared captures_spared(driver);
  std::shared_ptr<Device> device(new Device(driver, options));
  device->open_context(ordinal);
  const Scope scope(*device);
  device->check("cuCtxPushCurrent", scope.result());
  // A context keeps 1 KiB of stack for each thread that the GPU can hold: 264 of a context's 524 MiB on an
  // H100. Our kernels call nothing, and the driver adds memory for spilled registers when it launches a
  // kernel. A driver that refuses costs no more than the memory.
  if (options.alone_in_process) driver.ctx_set_limit(CU_LIMIT_STACK_SIZE, 0);
  device->load_kernels();
  device->load_generated_kernels();
  device->make_lanes();
  return device;
}

void Device::open_context(int ordinal) {
  const Driver& d = *driver_;
  check("cuInit", d.init(0));
  check("cuDeviceGetCount", d.device_get_count(&info_.gpus_of_machine));
  if (ordinal >= info_.gpus_of_machine)
    throw std::runtime_error(
        fmt::format("device {} does not exist: this machine has {} GPU(s)", ordinal, info_.gpus_of_machine));
  check("cuDeviceGet", d.device_get(&ordinal_, ordinal));

  char name[256] = "";
  d.device_get_name(name, sizeof name, ordinal_);
  info_.name = name;
  info_.ordinal = ordinal;
  d.device_get_attribute(&info_.compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal_);
  d.device_get_attribute(&info_.compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal_);
  int multiprocessors = 0;
  d.device_get_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal_);
  info_.multiprocessors = static_cast<unsigned>(multiprocessors);

  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which older headers lack, as older drivers do.
  constexpr auto mps_enabled = static_cast<CUdevice_attribute>(133);
  if (d.device_get_attribute(&info_.shared_by_mps, mps_enabled, ordinal_) != CUDA_SUCCESS)
    info_.shared_by_mps = 0;

  CUcontext context = nullptr;
  check("cuDevicePrimaryCtxRetain", d.primary_ctx_retain(&context, ordinal_));
  context_ = context;
}

void Device::load_kernels() {
  CUmodule tiles = nullptr, bits = nullptr, paired = nullptr, tables = nullptr;
  check("cuModuleLoadData", load_module(ec_fatbin_tile_kernel, &tiles));
  check("cuModuleLoadData", load_module(ec_fatbin_bit_kernel, &bits));
  check("cuModuleLoadData", load_module(ec_fatbin_paired_kernel, &paired));
  check("cuModuleLoadData", load_module(ec_fatbin_table_kernel, &tables));
  for (unsigned i = 0; i < tile_words.size(); ++i)
    tile_kernels_[i] = find(tiles, fmt::format("ec_tile_w{}", 8 * tile_words[i]));
  for (unsigned i = 0; i < bit_kernels_.size(); ++i) {
    const BitKernel& kernel = bit_kernels[i];
    bit_kernels_[i] = find(kernel.pairs == 0 ? bits : paired,
                           fmt::format("ec_bits_p{}_q{}_h{:d}", kernel.pairs, kernel.quads, kernel.half));
  }
  for (unsigned i = 0; i < table_kernels_.size(); ++i)
    table_kernels_[i] =
        find(tables, fmt::format("ec_table_r{}_{}", table_kernels[i].rows, table_kernels[i].ones));
}

/// A chip without machine code in the kernels goes without them: they hold no code for a driver to compile.
void Device::load_generated_kernels() {
  for (const GeneratedCode& code : generated_codes()) {
    CUmodule module = nullptr;
    const CUresult result = load_module(code.image, &module);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) return generated_kernels_.clear();
    check("cuModuleLoadData", result);
    const std::string name(code.name);
    generated_kernels_.push_back({code.matrix(), find(module, name + "_one"), find(module, name + "_many")});
  }
}

const GeneratedKernel* Device::generated_kernel(const gf::Matrix& matrix) const noexcept {
  const auto kernel = std::ranges::find(generated_kernels_, matrix, &GeneratedKernel::matrix);
  return kernel == generated_kernels_.end() ? nullptr : &*kernel;
}

CUfunction Device::find(CUmodule module, const std::string& name) const {
  CUfunction function = nullptr;
  check("cuModuleGetFunction", driver_->module_get_function(&function, module, name.c_str()));
  return function;
}

CUresult Device::load_module(const void* image, CUmodule* module) {
  modules_.reserve(modules_.size() + 1);
  const CUresult result = driver_->module_load_data(module, image);
  if (result == CUDA_SUCCESS) modules_.push_back(*module);
  return result;
}

/// All memory that jobs need is allocated here: an allocation in a job could wait for another job that hangs.
void Device::make_lanes() {
  constexpr std::size_t page_bytes = 4096;
  const std::size_t slab_bytes = options_.staging_bytes / lane_count / page_bytes * page_bytes;
  const std::size_t staging_bytes = lane_count * slab_bytes;
  free_lanes_.reserve(lane_count);
  void* staging = nullptr;
  check("cuMemHostAlloc", driver_->mem_host_alloc(&staging, staging_bytes,
                                                  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  staging_ = {static_cast<std::uint8_t*>(staging), staging_bytes};
  add(device_stats().staging_bytes, staging_bytes);
  CUdeviceptr tables = 0;
  check("cuMemAlloc", driver_->mem_alloc(&tables, lane_count * Lane::table_bytes));
  tables_ = tables;
  add(device_stats().device_bytes, lane_count * Lane::table_bytes);
  for (Lane& lane : lanes_) {
    // In order with the default stream, on which a program's plain copies into device memory may still be
    // under way when they return.
    check("cuStreamCreate", driver_->stream_create(&lane.stream, CU_STREAM_DEFAULT));
    lane.table = tables_ + free_lanes_.size() * Lane::table_bytes;
    lane.slab = staging_.subspan(free_lanes_.size() * slab_bytes, slab_bytes);
    free_lanes_.push_back(&lane);
  }
}

void Device::free_lanes() {
  for (const Lane& lane : lanes_)
    if (lane.stream != nullptr) driver_->stream_destroy(lane.stream);
  if (tables_ != 0) {
    driver_->mem_free(tables_);
    add(device_stats().device_bytes, -std::uint64_t{lane_count * Lane::table_bytes});
  }
  if (!staging_.empty()) {
    driver_->mem_free_host(staging_.data());
    add(device_stats().staging_bytes, -std::uint64_t{staging_.size()});
  }
}

void Device::abandon() {
  if (!abandoned_.exchange(true)) add(device_stats().given_up_bytes, staging_.size());
}

void Device::take_back() {
  const Scope scope(*this);
  CUresult answer = scope.result();
  for (const Lane& lane : lanes_)
    if (answer == CUDA_SUCCESS) answer = driver_->stream_query(lane.stream);
  if (!is_over(answer)) check("its work from before is not over", answer);
  if (abandoned_.exchange(false)) add(device_stats().given_up_bytes, -std::uint64_t{staging_.size()});
}

int Device::holder_of(const void* address) const {
  int ordinal = -1;
  void* value = &ordinal;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  return driver_->pointer_get_attributes(1, &attribute, &value, at) == CUDA_SUCCESS ? ordinal : -1;
}

bool Device::owns(CUstream stream) const {
  CUcontext context = nullptr;
  const Scope scope(*this);
  return scope.result() == CUDA_SUCCESS && driver_->stream_get_ctx(stream, &context) == CUDA_SUCCESS &&
         context == context_;
}

void Device::lock_preload_arena() {
  const Scope scope(*this);
  check("cuCtxPushCurrent", scope.result());
  arena_ = LockedArena::of_preload(*driver_, ordinal_, options_);
}

Device::~Device() {
  if (abandoned_) {
    if (arena_) arena_->abandon();
    return;
  }
  if (context_ == nullptr) return;
  {
    // After a fault every call here may fail; the best course is to go on.
    Scope scope(*this);
    free_lanes();
    arena_.reset();
    if (!lent_.load(std::memory_order_relaxed))
      for (CUmodule module : modules_) driver_->module_unload(module);
  }
  driver_->primary_ctx_release(ordinal_);
}

}  // namespace ec::kernels::cuda
