// Jobs on one device: in place, through staging memory, many at once, and on a stream of the caller.
#pragma once

#include <cuda.h>

#include <memory>
#include <span>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"
#include "kernels/cuda/kernels/kernel_kind.hpp"

namespace ec::kernels::cuda {

/// Runs `job` to its end. The kernel reads and writes pinned and device chunks in place; pageable ones are
/// copied through the slab of a lane: all at once where they fit, else in slices, each in one half while the
/// device is at the other. If a job of accumulate is host-addressable as a whole, its targets, pinned ones
/// too, are copied to the slab and back at the end, so that a fault leaves them as they were. busy if they do
/// not fit, or if no lane is free.
Outcome run_job(const std::shared_ptr<Device>& device, const Job& job, Verb verb, KernelKind kind);

/// Whether the jobs can be one for run_batch(): more than one, of one program and one length, and none with a
/// pageable chunk.
bool are_batch(std::span<const Job> jobs);

/// transform of each of jobs for which are_batch() holds: as one launch if the kernel generated for many
/// stripes is there and takes them, else as a launch for each, and one wait in either case. busy if no lane
/// is free. On a fault any of the targets hold anything.
Outcome run_batch(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind);

/// Enqueues transform of each job on `stream` and does not wait; no chunk is pageable. Jobs of one program
/// and one length go as one launch where run_batch() would do that, through a table that is allocated and
/// freed in the order of the stream; while the stream is captured, and on drivers that cannot, as a launch
/// for each.
Outcome enqueue(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind,
                CUstream stream);

/// A small job with a known answer; false, with the reason in *why, if the device does not give it.
bool self_test(const std::shared_ptr<Device>& device, std::string* why);

}  // namespace ec::kernels::cuda
