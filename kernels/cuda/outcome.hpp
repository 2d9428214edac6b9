// How work on a device ended.
#pragma once

#include <string>

#include "kernels/backend.hpp"

namespace ec::kernels::cuda {

/// `reason` is set for fault and hung, and says what the driver said. gave_up: the device did not answer in
/// time; what it was given to work on must never be used again.
struct Outcome {
  Status status = Status::ok;
  std::string reason;
  bool gave_up = false;
};

}  // namespace ec::kernels::cuda
