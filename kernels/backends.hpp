// The back ends of this build, best first, the floor last.
#pragma once

#include <span>
#include <string_view>

#include "kernels/backend.hpp"

namespace ec::kernels {

/// cuda (when built with it; the device itself may be absent), x86 (on x86-64), isal, reference.
/// Touches no device.
std::span<Backend* const> backends() noexcept;

/// ISA-L by its ec_encode_data, on host memory. Opens libisal.so.2 when we are loaded. Supports no job where
/// the library is absent or codes a few bytes wrong then. Never returns anything but Status::ok for a job it
/// supports, except Status::fault when memory for the expanded tables (32 bytes a coefficient) cannot be had.
Backend& isal_backend() noexcept;
/// Plain scalar code, the floor: takes every job in host memory. Never returns anything but Status::ok for a
/// job it supports.
Backend& reference_backend() noexcept;

/// Why a back end of the list codes nothing in this process (ISA-L is not installed); empty where all may.
std::string_view missing_backend() noexcept;

/// Back ends that are reached by name only: each instruction set of x86 (x86-gfni512, x86-gfni256,
/// x86-avx512, x86-avx2; an instruction set that this CPU lacks supports no job) and each kernel of the
/// device (cuda-tile, cuda-table, cuda-bits, cuda-paired, cuda-generated).
std::span<Backend* const> variants() noexcept;

/// The back end or variant with this name, or null if this build has none.
inline Backend* find_backend(std::string_view name) noexcept {
  for (auto list : {backends(), variants()})
    for (Backend* b : list)
      if (b->name() == name) return b;
  return nullptr;
}

/// Whether this process can have its buffers born pinned: it runs with libec_cuda_pinned.so.
bool can_be_pinned() noexcept;

/// Called where the CPU codes chunks that the device would code if they were pinned. If this process can have
/// pinned buffers, starts to bring the device up, as a job would, and returns at once. Else does nothing.
void want_pinned() noexcept;

/// Devices that the work of this process is spread over, at least 1; a load. Thread safe.
unsigned device_count() noexcept;

}  // namespace ec::kernels
