// `ec_bench kernels`: the device kernels on chunks in device memory, against a copy and against plain XOR.
#pragma once

#include <string>
#include <vector>

namespace ec::bench {

/// Exit status: 0, 1 if a kernel made wrong bytes or there is no device, 2 for a command line that cannot be
/// used.
int run_kernels(const std::vector<std::string>& arguments);

}  // namespace ec::bench
