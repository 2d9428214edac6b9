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

/// The walk for `sources` x `targets` chunks of `bytes` each. targets: those of one pass.
Walk choose_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept;

}  // namespace ec::kernels::x86
