// One job on one device: staging of what is pageable, launches, and the wait with a
// deadline.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernel_kind.hpp"

namespace ec::kernels::cuda {

enum class Verb { transform, accumulate };

/// What became of a job. `reason` is set for fault and hung, and says what the driver said.
struct Outcome {
  Status status = Status::ok;
  std::string reason;
};

/// Enqueues target = M . source, or target += M . source, on a stream. Chunks as the device sees them; the
/// device's context is current.
using Launcher = std::function<CUresult(
    Device& device, const gf::Matrix& matrix, std::span<const std::uint8_t* const> sources,
    std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate, CUstream stream)>;

/// Runs `job` to its end. Pinned and device chunks are read and written in place by the kernel; pageable ones
/// go through pinned staging in slices. Targets of accumulate in host memory are staged wherever they lie, so
/// that a fault leaves them as they were. busy if no lane or staging memory is free.
/// `launcher`: what codes the job in place of the kernels of `kind`; may be null.
Outcome run_job(const std::shared_ptr<Device>& device, const Job& job, Verb verb, KernelKind kind,
                const Launcher* launcher = nullptr);

/// A small job with a known answer; false, with the reason in *why, if the device does not give it.
bool self_test(const std::shared_ptr<Device>& device, std::string* why);

}  // namespace ec::kernels::cuda
