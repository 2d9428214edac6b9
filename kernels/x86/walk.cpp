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
  Walk walk;
  if (bytes * (sources + targets) <= stream_threshold()) return walk;
  // More rows than one group read a tile again from the cache: it is longer, and fewer sources share its
  // sets.
  const bool narrow = group_count(targets) == 1;
  walk.tile_bytes = narrow ? 512 : 1024;
  const unsigned most = narrow ? 10 : 8;
  const unsigned parts = (sources + most - 1) / most;
  walk.group_sources = (sources + parts - 1) / parts;
  walk.ahead = walk.group_sources;
  walk.stream = !accumulate;
  return walk;
}

}  // namespace ec::kernels::x86
