// The GPU as a back end.
#pragma once

#include <optional>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/launches.hpp"
#include "kernels/cuda/options.hpp"

namespace ec::kernels::cuda {

/// Called backend_name(kind), "cuda" for automatic, the only one in kernels::backends(). Takes chunks of any
/// residence. While the device is absent, coming up or latched off, a job is answered busy. The first job
/// starts bringing the device up. One with chunks in device memory waits for that, and is answered fault if
/// there is no device.
Backend& backend(KernelKind kind = KernelKind::automatic) noexcept;

/// Brings the device up now and waits for it. What came up; or nothing, with the reason in *why.
std::optional<DeviceInfo> bring_up(Reason* why);
/// The same without what came up, which takes memory to say.
bool is_up(Reason* why) noexcept;

}  // namespace ec::kernels::cuda
