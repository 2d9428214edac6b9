// The sub-commands of ec_bench.
#pragma once

#include "bench/common/options.hpp"

namespace ec::bench {

/// The back ends of the CPU beside the memory bound.
Subcommand cpu();
/// The device kernels on chunks in device memory, against a copy there.
Subcommand gpu();
/// Calls through the codec by residence, size, threads and back end, beside what the link can do.
Subcommand host();
/// Instructions of calls.
Subcommand instructions();
/// The file tool beside others.
Subcommand files();

}  // namespace ec::bench
