// The plainest back end as the judge of results.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.hpp"

namespace ec::bench {

/// What `judge` makes of a job: the targets' bytes, in memory of its own. For an accumulation the present
/// contents of the job's targets enter. The job itself is left alone. Throws std::runtime_error if the judge
/// declines.
std::vector<std::vector<std::uint8_t>> judged(kernels::Backend& judge, const kernels::Job& job,
                                              bool accumulate);

}  // namespace ec::bench
