// The counters of this process in shared memory without a name, a StatsPage, which other programs find as
// /proc/PID/fd/N -> "/memfd:ec_cuda_stats (deleted)" and read. Nothing is left of it when the process ends.
#pragma once

#include "plugin/codec/stats/counters.hpp"

namespace ec::codec {

inline constexpr const char* stats_region_name = "ec_cuda_stats";

/// The counters of this process, in shared memory that its user may read, of fixed size and sealed against
/// any other; where the system gives none, in memory of the process that nobody else reads. A child of fork()
/// gets a region of its own, with zeros. Called once; never freed.
Counters* publish_counters() noexcept;

}  // namespace ec::codec
