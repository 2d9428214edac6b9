// How the data is walked: chosen by shape, length and the caches of this CPU.
#pragma once

#include <cstddef>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// Job bytes (sources and targets) above which targets are written past the cache.
std::size_t stream_threshold() noexcept;

/// The walk for `sources` x `targets` chunks of `bytes` each. targets: those of one pass.
Walk choose_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept;

}  // namespace ec::kernels::x86
