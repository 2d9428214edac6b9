// `ec_bench cpu`: the claims about the CPU path, measured.
#pragma once

#include <string>
#include <vector>

namespace ec::bench {

/// Exit status: 0, 1 if a contestant made wrong bytes or failed, 2 for a command line that cannot be used.
int run_cpu(const std::vector<std::string>& arguments);

}  // namespace ec::bench
