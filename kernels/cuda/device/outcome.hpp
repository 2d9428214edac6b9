// How work on a device ended.
#pragma once

#include <new>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/driver.hpp"

namespace ec::kernels::cuda {

/// `reason` is set for fault and hung, and says what the driver said. gave_up: the device did not answer in
/// time; what it was given to work on must never be used again.
struct Outcome {
  Status status = Status::ok;
  std::string reason;
  bool gave_up = false;
};

/// A call of the driver failed: which, and with what, unless there is no memory to say so. Never throws: work
/// that was launched before may still be waited for.
inline Outcome fault(const Driver& driver, const char* call, CUresult result) noexcept try {
  return {Status::fault, std::string(call) + ": " + driver.error_name(result), false};
} catch (const std::bad_alloc&) {
  return {Status::fault, {}, false};
}

}  // namespace ec::kernels::cuda
