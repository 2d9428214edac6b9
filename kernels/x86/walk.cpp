#include "kernels/x86/walk.hpp"

#include <unistd.h>

#include <algorithm>

namespace ec::kernels::x86 {

std::size_t stream_threshold() noexcept {
  static const std::size_t threshold = [] {
    const long second_level = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return std::max<std::size_t>(second_level > 0 ? static_cast<std::size_t>(second_level) : 0, 1 << 20);
  }();
  return threshold;
}

std::size_t fetch_threshold() noexcept {
  static const std::size_t threshold = [] {
    const long first_level = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (!this_core().intel || first_level <= 0) return stream_threshold();
    return std::min(2 * static_cast<std::size_t>(first_level), stream_threshold());
  }();
  return threshold;
}

const Core& this_core() noexcept {
  static const Core core = [] {
    const long said = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
    return Core{said > 0 ? static_cast<unsigned>(said) : 8, __builtin_cpu_is("intel") != 0};
  }();
  return core;
}

namespace {
/// Made when we are loaded, so that no child of fork() finds another thread at it.
[[maybe_unused]] const auto threshold_at_load = fetch_threshold();
[[maybe_unused]] const auto& core_at_load = this_core();

/// How far ahead of their use sources are fetched where there are no tiles.
constexpr unsigned ahead_bytes = 512;
}  // namespace

Walk large_walk(unsigned sources, unsigned targets, bool accumulate, const Core& core) noexcept {
  Walk walk;
  walk.stream = !accumulate;
  const bool narrow = group_count(targets) == 1;
  const bool many_ways = core.first_level_ways >= 12;
  if (many_ways && !core.intel) {
    if (!narrow || sources > 20) walk.ahead_bytes = ahead_bytes;
    return walk;
  }
  if (narrow && sources < (many_ways ? core.first_level_ways : 15)) {
    if (many_ways && sources >= 4) walk.ahead_bytes = ahead_bytes;
    return walk;
  }
  // More rows than one group read a tile again from the cache: it is longer.
  walk.tile_bytes = narrow && many_ways ? 512 : 1024;
  const unsigned most = !many_ways ? 6 : narrow ? 10 : 5;
  const unsigned parts = std::max((sources + most - 1) / most, many_ways && !narrow ? 2u : 1u);
  walk.group_sources = (sources + parts - 1) / parts;
  walk.ahead = walk.group_sources;
  return walk;
}

Walk fetching_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept {
  if (bytes * (sources + targets) <= stream_threshold())
    return {.ahead_bytes = sources >= 6 && targets >= 2 ? ahead_bytes : 0};
  return large_walk(sources, targets, accumulate, this_core());
}

}  // namespace ec::kernels::x86
