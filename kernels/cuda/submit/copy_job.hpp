// Long jobs over the link by the device's copy engines, which fill it better than kernels that read host
// memory.
#pragma once

#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"
#include "kernels/cuda/kernels/kernel_kind.hpp"

namespace ec::kernels::cuda {

/// Whether transform of this job should go by copies: all of it is pinned, it is long enough to make up for
/// the slices that travel while nothing is coded, and the driver copies many pieces in one call.
///
/// H200, 54.1 GB/s both ways at once: kernels read host memory at 49 GB/s whatever their number, presumably
/// because each of their reads is a packet of its own; slices with pieces of 1 MiB, 10+4, got 53. Pieces of 1
/// MiB go in at 54.4 GB/s if one call of cuMemcpyBatchAsync copies eight, and at 48 if each is a call.
bool copies_pay(const Device& device, const Job& job);

/// Runs a job for which copies_pay() holds: slice by slice into device memory, coded there, and back. busy if
/// no room, or no two lanes, are free.
Outcome run_by_copies(const std::shared_ptr<Device>& device, const Job& job, KernelKind kind);

}  // namespace ec::kernels::cuda
