// Intel ISA-L: its ec_encode_data on host memory.
#pragma once

#include "kernels/backend.hpp"

namespace ec::kernels {

/// Supports no job where the functions of ISA-L's names in this process, which may be somebody else's, code a
/// few bytes wrong when we are loaded. Never returns anything but
/// Status::ok for a job it supports, except Status::fault when memory for the expanded tables (32 bytes a
/// coefficient) cannot be had.
Backend& isal_backend() noexcept;

}  // namespace ec::kernels
