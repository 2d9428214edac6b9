// The GPU as a back end.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/launches.hpp"
#include "kernels/cuda/options.hpp"

namespace ec::kernels::cuda {

/// Called backend_name(kind), "cuda" for automatic, the only one in kernels::backends(). Takes chunks of any
/// residence. While the device is absent, coming up or latched off, a job is answered busy. The first job
/// starts to bring the device up. A job with chunks in device memory waits for the device, and is answered
/// unsupported if there is none.
Backend& backend(KernelKind kind = KernelKind::automatic) noexcept;

}  // namespace ec::kernels::cuda
