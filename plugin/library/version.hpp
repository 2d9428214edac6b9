#pragma once

namespace ec::library {

/// ECCODER_VERSION comes from the project's version.
inline constexpr const char* version = ECCODER_VERSION;

}  // namespace ec::library
