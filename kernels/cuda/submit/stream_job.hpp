// Jobs on a stream of the caller: enqueued, not waited for.
#pragma once

#include <cuda.h>

#include <memory>
#include <span>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"
#include "kernels/cuda/kernels/kernel_kind.hpp"

namespace ec::kernels::cuda {

/// Enqueues transform of each job on `stream`; no chunk is pageable. Jobs of one program and one length go as
/// one launch where run_batch() would do that, through a table that is allocated and freed in the order of
/// the stream; while the stream is captured, and on drivers that cannot, as a launch for each.
Outcome enqueue(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind,
                CUstream stream);

}  // namespace ec::kernels::cuda
