// Which back ends this build has and this machine can run, in words.
#pragma once

#include <string>

namespace ec::tools {

/// One line a back end, best first, each ending in a newline. Opens the GPU driver if the build has the GPU
/// back end, and creates nothing on the device.
std::string backend_report();

}  // namespace ec::tools
