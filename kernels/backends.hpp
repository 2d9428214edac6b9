// The back ends of this build, best first, the floor last.
#pragma once

#include <span>
#include <string_view>

#include "kernels/backend.hpp"

namespace ec::kernels {

/// cuda (when built with it; the device itself may be absent), isal, reference. Touches no device.
std::span<Backend* const> backends() noexcept;

/// The back end of that name, or null if this build has none.
Backend* find_backend(std::string_view name) noexcept;

}  // namespace ec::kernels
