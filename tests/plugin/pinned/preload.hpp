// The preload as the tests see it: looked up, as everybody does.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "ec_cuda_pinned.h"

namespace ec::test {

inline constexpr std::size_t KiB = 1024;
inline constexpr std::size_t MiB = 1024 * KiB;

inline auto* preload_start() {
  return reinterpret_cast<decltype(&ec_cuda_pinned_start)>(dlsym(RTLD_DEFAULT, "ec_cuda_pinned_start"));
}

inline ec_cuda_pinned_stats preload_statistics() {
  ec_cuda_pinned_stats stats{};
  reinterpret_cast<decltype(&ec_cuda_pinned_statistics)>(dlsym(RTLD_DEFAULT, "ec_cuda_pinned_statistics"))(
      &stats);
  return stats;
}

/// What a lock function was given.
struct LockedRange {
  std::uint8_t* start = nullptr;
  std::size_t bytes = 0;
  unsigned calls = 0;
  int answer = 0;

  bool holds(const void* p) const {
    const auto* at = static_cast<const std::uint8_t*>(p);
    return at >= start && at < start + bytes;
  }
};

/// ec_cuda_pinned_start with a lock function that only remembers.
inline int start_arena(LockedRange& range, std::size_t bytes, std::size_t threshold) {
  return preload_start()(
      bytes, threshold,
      [](void* start, std::size_t length, void* context) {
        auto& locked = *static_cast<LockedRange*>(context);
        locked.start = static_cast<std::uint8_t*>(start);
        locked.bytes = length;
        ++locked.calls;
        return locked.answer;
      },
      &range);
}

}  // namespace ec::test
