// The arena of libec_cuda_pinned.so while a device is up: page-locked for it, and known to residence_of().
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "kernels/cuda/device/driver.hpp"
#include "kernels/cuda/options.hpp"
#include "kernels/residence.hpp"

namespace ec::kernels::cuda {

/// Whether this process runs with libec_cuda_pinned.so. Looked up at load; cheap.
bool has_preload() noexcept;

/// Belongs to one device, whose context is current when the object is made. Several devices may hold the
/// arena at a time; the first locks the arena and the last unlocks it. A registration goes with the context
/// in which it was made, so the first device's context is kept until then, also when the device was given up
/// after a fault. This GPU comes up again once the others have let go of the arena.
class LockedArena {
 public:
  /// Locks the arena and has the preload hand it out; logs one line. Null without the preload, which is not
  /// logged; null as well if the driver or the preload refused: the process keeps ordinary memory. The driver
  /// refuses an arena that another copy of this code in the process has locked, and that copy keeps it.
  static std::unique_ptr<LockedArena> of_preload(const Driver& driver, CUdevice device,
                                                 const Options& options);
  ~LockedArena();
  LockedArena(const LockedArena&) = delete;
  LockedArena& operator=(const LockedArena&) = delete;

  /// The device stopped answering: the arena stays locked for good, because unlocking could wait for it.
  void abandon() { abandoned_ = true; }

 private:
  LockedArena(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}
  int lock(void* start, std::size_t bytes);
  CUresult lock_pages(void* start, std::size_t bytes) const;

  const Driver& driver_;
  const CUdevice device_;
  void* start_ = nullptr;
  std::size_t bytes_ = 0;
  CUresult refusal_ = CUDA_SUCCESS;
  std::optional<KnownArena> known_;
  bool abandoned_ = false;
};

}  // namespace ec::kernels::cuda
