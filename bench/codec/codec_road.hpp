// The direct road: back ends of kernels/, and the router over them.
#pragma once

#include "bench/common/contestant.hpp"
#include "bench/common/options.hpp"

namespace ec::bench {

Subcommand codec_subcommand();

/// contestants: names of back ends of this build, or `router`. Throws UsageError for another.
std::unique_ptr<Road> make_codec_road(const std::vector<std::string>& contestants);

}  // namespace ec::bench
