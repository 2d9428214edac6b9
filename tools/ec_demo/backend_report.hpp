// Which back ends this build has and this machine can run, in words.
#pragma once

#include <string>

namespace ec::tools {

/// One line a back end, best first, each ending in a newline. If the build has the GPU back end, this brings
/// the device up (see EC_CUDA_DEVICES). Throws codec::SetupError for a wrong EC_CUDA_ variable.
std::string backend_report();

}  // namespace ec::tools
