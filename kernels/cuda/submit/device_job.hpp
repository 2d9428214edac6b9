// Jobs on one device: staging of what is pageable, launches, and the wait with a deadline.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"
#include "kernels/cuda/kernels/stripe_launch.hpp"

namespace ec::kernels::cuda {

/// Enqueues target = M . source, or target += M . source, on a stream. Chunks as the device sees them; the
/// device's context is current.
using Launcher = std::function<CUresult(
    Device& device, const gf::Matrix& matrix, std::span<const std::uint8_t* const> sources,
    std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate, CUstream stream)>;

/// Runs `job` to its end. Pinned and device chunks are read and written in place by the kernel; pageable ones
/// go through pinned staging in slices, which are copied while the device is at others. Targets of accumulate
/// in host memory are staged wherever they lie, and all of them until the last slice is done, so that a fault
/// leaves them as they were. busy if no lane or staging memory is free.
/// `launcher`: what codes the job in place of the kernels of `kind`; may be null.
Outcome run_job(const std::shared_ptr<Device>& device, const Job& job, Verb verb, KernelKind kind,
                const Launcher* launcher = nullptr);

/// Runs jobs of one program and one length, one at least, none of them pageable (see run_job for those): as
/// one launch if the kernel generated for many stripes is there and takes them, else as a launch for each,
/// and one wait in either case. busy if no lane is free. On a fault any of the targets hold anything.
Outcome run_batch(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind);

/// A small job with a known answer; false, with the reason in *why, if the device does not give it.
bool self_test(const std::shared_ptr<Device>& device, std::string* why);

}  // namespace ec::kernels::cuda
