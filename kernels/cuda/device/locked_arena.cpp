// The arena of libec_cuda_pinned.so while devices are up.
#include "kernels/cuda/device/locked_arena.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "ec_cuda_pinned.h"
#include "support/process_life.hpp"

namespace ec::kernels::cuda {
namespace {

/// Found at load, before a host forks; null without the preload.
auto* const start_preload =
    reinterpret_cast<decltype(&ec_cuda_pinned_start)>(dlsym(RTLD_DEFAULT, "ec_cuda_pinned_start"));

/// A process has one arena. Devices that have it locked, abandoned devices included, and the context
/// in which it is registered.
struct Holders {
  std::mutex mutex;
  unsigned count = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
};

constinit NeverDestroyed<Holders> holders;

}  // namespace

bool has_preload() noexcept { return start_preload != nullptr; }

std::unique_ptr<LockedArena> LockedArena::of_preload(const Driver& driver, CUdevice device,
                                                     const Options& options) {
  if (!has_preload()) return nullptr;
  std::unique_ptr<LockedArena> arena(new LockedArena(driver, device));
  const int error = start_preload(
      options.pinned_bytes, options.pinned_threshold,
      [](void* start, std::size_t bytes, void* self) {
        return static_cast<LockedArena*>(self)->lock(start, bytes);
      },
      arena.get());
  if (error == 0) {
    log(options, "libec_cuda_pinned.so: {} MiB are page-locked", arena->bytes_ >> 20);
    arena->known_.emplace(arena->start_, arena->bytes_);
    return arena;
  }
  const Reason why = arena->refusal_ != CUDA_SUCCESS ? Reason(driver.error_name(arena->refusal_).view())
                                                     : Reason(std::strerror(-error));
  log(options, "libec_cuda_pinned.so: {} MiB could not be page-locked: {}", options.pinned_bytes >> 20,
      why.view());
  return nullptr;
}

int LockedArena::lock(void* start, std::size_t bytes) {
  Holders& all = holders.value;
  std::lock_guard lock(all.mutex);
  if (all.count == 0) {
    CUcontext context = nullptr;
    refusal_ = driver_.primary_ctx_retain(&context, device_);
    if (refusal_ == CUDA_SUCCESS && (refusal_ = lock_pages(start, bytes)) != CUDA_SUCCESS)
      driver_.primary_ctx_release(device_);
    if (refusal_ != CUDA_SUCCESS) return -ENOMEM;
    all.device = device_;
    all.context = context;
  }
  ++all.count;
  start_ = start;
  bytes_ = bytes;
  return 0;
}

/// Kernels get the host's addresses, so the device's addresses must be the same.
CUresult LockedArena::lock_pages(void* start, std::size_t bytes) const {
  constexpr unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  auto result = driver_.mem_host_register(start, bytes, flags);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr seen = 0;
  result = driver_.device_pointer(&seen, start, 0);
  if (result == CUDA_SUCCESS && seen != reinterpret_cast<CUdeviceptr>(start))
    result = CUDA_ERROR_NOT_SUPPORTED;
  if (result != CUDA_SUCCESS) driver_.mem_host_unregister(start);
  return result;
}

LockedArena::~LockedArena() {
  known_.reset();
  if (abandoned_ || start_ == nullptr) return;
  Holders& all = holders.value;
  std::lock_guard lock(all.mutex);
  if (--all.count != 0) return;
  // After a fault every call here may fail; then the driver unlocks with the context.
  CUcontext ignored = nullptr;
  if (driver_.ctx_push_current(all.context) == CUDA_SUCCESS) {
    driver_.mem_host_unregister(start_);
    driver_.ctx_pop_current(&ignored);
  }
  driver_.primary_ctx_release(all.device);
}

}  // namespace ec::kernels::cuda
