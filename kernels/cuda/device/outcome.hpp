// How work on a device ended.
#pragma once

#include <new>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/driver.hpp"

namespace ec::kernels::cuda {

/// `reason` is set for fault and hung, and says what the driver said.
struct Outcome {
  Status status = Status::ok;
  std::string reason;
};

/// ok if a call of the driver succeeded. Else a fault: which call, and with what, unless there is no memory
/// to say so. Never throws: work that was launched before may still be waited for.
inline Outcome outcome_of(const Driver& driver, const char* call, CUresult result) noexcept try {
  if (result == CUDA_SUCCESS) return {};
  return {Status::fault, std::string(call) + ": " + driver.error_name(result)};
} catch (const std::bad_alloc&) {
  return {Status::fault, {}};
}

}  // namespace ec::kernels::cuda
