#include "plugin/codec/experience.hpp"

#include <algorithm>

namespace ec::codec {
namespace {

/// Of a factor to what was seen now: 1 / 2, 1 / 3, .. 1 / slowest.
constexpr unsigned slowest = 8;
/// Of those that were not seen to 1.
constexpr double forgetting = 1. / 1024;

}  // namespace

std::size_t Experience::class_of(std::uint64_t moved_bytes) noexcept {
  return static_cast<std::size_t>(std::ranges::lower_bound(class_bounds, moved_bytes) - class_bounds.begin());
}

void Experience::took(Road road, std::uint64_t moved_bytes, double predicted_us, double us) noexcept {
  if (!(predicted_us > 0)) return;
  auto& of_class = places_[class_of(moved_bytes)];
  for (std::size_t i = 0; i < roads; ++i) {
    Place& place = of_class[i];
    const double before = place.factor.load(std::memory_order_relaxed);
    double step = forgetting * (1 - before);
    if (i == static_cast<std::size_t>(road)) {
      const unsigned weight = std::min(place.seen.load(std::memory_order_relaxed) + 2, slowest);
      place.seen.store(weight - 1, std::memory_order_relaxed);
      step = (std::clamp(us / predicted_us, before / 2, 2 * before) - before) / weight;
    }
    place.factor.store(std::clamp(before + step, 1 / most, most), std::memory_order_relaxed);
  }
}

Experience& experience() noexcept {
  static Experience of_this_process;
  return of_this_process;
}

}  // namespace ec::codec
