// Intel ISA-L: its ec_encode_data on host memory.
#pragma once

#include <string_view>

#include "kernels/backend.hpp"

namespace ec::kernels {

/// Opens libisal.so.2 when we are loaded. Supports no job where the library is absent or codes a few bytes
/// wrong then. Never returns anything but Status::ok for a job it supports, except Status::fault when memory
/// for the expanded tables (32 bytes a coefficient) cannot be had.
Backend& isal_backend() noexcept;

/// Why ISA-L supports no job; empty where it does. Thread safe.
std::string_view why_no_isal() noexcept;

}  // namespace ec::kernels
