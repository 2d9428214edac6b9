// Intel ISA-L: its ec_encode_data on host memory.
#pragma once

#include "kernels/backend.hpp"

namespace ec::kernels {

/// Never returns anything but Status::ok for a job it supports, except Status::fault when memory for the
/// expanded tables (32 bytes a coefficient) cannot be had.
Backend& isal_backend() noexcept;

}  // namespace ec::kernels
