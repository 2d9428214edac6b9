// How the data is walked: chosen by shape, length and the caches of this CPU.
#pragma once

#include <cstddef>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// Job bytes (sources and targets) above which targets are written past the cache: the second-level cache of
/// this CPU, 1 MiB at least. Measured with 2 MiB of it: up to there ordinary stores are up to twice as fast
/// where the job is repeated, above it streaming is level then and a third faster on data that no cache
/// holds.
std::size_t stream_threshold() noexcept;

/// Ways of this CPU's first-level data cache; 8 where the system does not say.
unsigned first_level_ways() noexcept;

/// The walk for a job above the threshold on a CPU with that many ways. Chunks that lie a power of two apart
/// share the sets of the first-level cache, so the ways bound how many sources of a tile stay there.
///   12 ways and more  10 sources in a tile, 8 where several groups of rows share it
///   fewer             up to 14 sources in one group of rows no tiles: the CPU's own prefetchers do better
///                     (10+4: 23 GB/s of source, against 18 by tiles of 5 sources and 12 by tiles of 10);
///                     otherwise 6 sources in a tile. Measured on a Zen 4 with 8 ways, in 1 MiB chunks that
///                     no cache holds.
Walk large_walk(unsigned sources, unsigned targets, bool accumulate, unsigned ways) noexcept;

/// The walk for `sources` x `targets` chunks of `bytes` each. targets: those of one pass.
Walk choose_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept;

}  // namespace ec::kernels::x86
