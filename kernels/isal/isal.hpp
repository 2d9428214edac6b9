// Intel ISA-L: its ec_encode_data on host memory.
#pragma once

#include "kernels/backend.hpp"

namespace ec::kernels {

/// Its functions are the library's own, whatever else the process calls by their names. Where they are not
/// found, or code a few bytes wrong when we are loaded, it supports no job. Never returns anything but
/// Status::ok for a job it supports, except Status::fault when memory for the expanded tables (32 bytes a
/// coefficient) cannot be had.
Backend& isal_backend() noexcept;

}  // namespace ec::kernels
