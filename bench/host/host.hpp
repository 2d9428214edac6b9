// `ec_bench host`: calls through the codec by residence, size, threads and back end, beside what the link can
// do.
#pragma once

#include <string>
#include <vector>

namespace ec::bench {

/// Exit status: 0, 1 if bytes were wrong, a call failed or there is no device, 2 for a command line that
/// cannot be used.
int run_host(const std::vector<std::string>& arguments);

}  // namespace ec::bench
