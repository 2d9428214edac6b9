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

std::size_t plain_threshold() noexcept {
  static const std::size_t threshold = [] {
    const Core& core = this_core();
    if (core.has_few_ways()) return core.first_level_bytes;
    // Less than half: 4+2 of 4 KiB is half of 48 KiB.
    return core.intel ? core.first_level_bytes / 2 - 1 : stream_threshold();
  }();
  return threshold;
}

const Core& this_core() noexcept {
  static const Core core = [] {
    Core found{.intel = __builtin_cpu_is("intel") != 0};
    if (const long ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC); ways > 0)
      found.first_level_ways = static_cast<unsigned>(ways);
    if (const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE); bytes > 0)
      found.first_level_bytes = static_cast<std::size_t>(bytes);
    return found;
  }();
  return core;
}

namespace {
/// Made when we are loaded, so that no child of fork() finds another thread at it.
[[maybe_unused]] const auto threshold_at_load = plain_threshold();
[[maybe_unused]] const auto stream_threshold_at_load = stream_threshold();

/// How far ahead of their use sources are fetched where there are no tiles.
constexpr unsigned ahead_bytes = 512;
}  // namespace

Walk cached_walk(unsigned sources, unsigned targets, std::size_t bytes, const Core& core) noexcept {
  const std::size_t short_until = (core.has_few_ways() ? 4 : 2) * core.first_level_bytes;
  if (bytes * (sources + targets) <= short_until) return {.short_blocks = true};
  if (!core.intel) return {};
  return {.ahead_bytes = sources >= 6 && targets >= 2 ? ahead_bytes : 0};
}

Walk large_walk(unsigned sources, unsigned targets, bool accumulate, const Core& core) noexcept {
  Walk walk;
  walk.stream = !accumulate;
  const bool narrow = group_count(targets) == 1;
  const bool few_ways = core.has_few_ways();
  if (!few_ways && !core.intel) {
    if (!narrow || sources > 20) walk.ahead_bytes = ahead_bytes;
    return walk;
  }
  if (narrow && sources <= (few_ways ? 24 : 20)) {
    walk.short_blocks = few_ways && sources >= 15;
    if (!few_ways && sources >= 4) walk.ahead_bytes = ahead_bytes;
    return walk;
  }
  // More rows than one group read a tile again from the cache: it is longer.
  walk.tile_bytes = narrow && !few_ways ? 512 : max_tile_bytes(targets);
  const unsigned most = few_ways ? 6 : narrow ? 10 : 5;
  const unsigned parts = std::max((sources + most - 1) / most, !few_ways && !narrow ? 2u : 1u);
  walk.group_sources = (sources + parts - 1) / parts;
  return walk;
}

bool sums_stay(const std::uint8_t* const* sources, unsigned count, const Core& core) noexcept {
  if (!core.has_few_ways()) return true;
  const std::uintptr_t set = core.first_level_bytes / core.first_level_ways - 64;  // the bits that number it
  const auto bits = [&](unsigned s) { return reinterpret_cast<std::uintptr_t>(sources[s]) & set; };
  unsigned sharing = 0;
  for (unsigned s = 0; s < count; ++s) sharing += bits(s) == bits(0);
  return sharing <= 2 * core.first_level_ways;
}

Walk walk_above_plain(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept {
  if (bytes * (sources + targets) <= stream_threshold())
    return cached_walk(sources, targets, bytes, this_core());
  return large_walk(sources, targets, accumulate, this_core());
}

}  // namespace ec::kernels::x86
