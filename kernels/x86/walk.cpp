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

Walk choose_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept {
  const std::size_t total = bytes * (sources + targets);
  const bool large = total > stream_threshold();
  const bool wide = group_count(targets) > 1;
  Walk walk;
  if (!large && !wide) return walk;
  walk.tile_bytes = 512;
  walk.group_sources = sources <= 12 && !wide ? sources : 5;
  if (large) walk.ahead = walk.group_sources;
  walk.stream = large && !accumulate;
  return walk;
}

}  // namespace ec::kernels::x86
