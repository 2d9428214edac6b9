#include "plugin/codec/experience.hpp"

#include <algorithm>

namespace ec::codec {
namespace {

/// Of a factor to what was seen now, and of those that were not seen to 1.
constexpr double learning = 1. / 8;
constexpr double forgetting = 1. / 1024;

}  // namespace

Experience::Experience() noexcept {
  for (auto& of_class : factors_)
    for (Factor& factor : of_class) factor.store(1, std::memory_order_relaxed);
}

std::size_t Experience::class_of(std::uint64_t moved_bytes) noexcept {
  return static_cast<std::size_t>(std::ranges::lower_bound(class_bounds, moved_bytes) - class_bounds.begin());
}

void Experience::took(Road road, std::uint64_t moved_bytes, double predicted_us, double us) noexcept {
  if (!(predicted_us > 0)) return;
  auto& of_class = factors_[class_of(moved_bytes)];
  for (std::size_t i = 0; i < roads; ++i) {
    const double before = of_class[i].load(std::memory_order_relaxed);
    const double after =
        i == static_cast<std::size_t>(road)
            ? before + learning * (std::clamp(us / predicted_us, before / 2, 2 * before) - before)
            : before + forgetting * (1 - before);
    of_class[i].store(std::clamp(after, 1 / most, most), std::memory_order_relaxed);
  }
}

Experience& experience() noexcept {
  static Experience of_this_process;
  return of_this_process;
}

}  // namespace ec::codec
