#include "plugin/codec/experience.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <random>

namespace ec::codec {
namespace {

/// Of a factor to what was seen now: 1 / 2, 1 / 3, .. 1 / slowest.
constexpr unsigned slowest = 8;
/// Of those that were not seen to 1, at each lesson.
constexpr double forgetting = 1. / 128;

/// True of one call in n, by chance. A few nanoseconds, and nothing that threads share.
bool one_in(unsigned n) noexcept {
  static std::atomic<unsigned> threads{1};
  thread_local std::minstd_rand chance(threads.fetch_add(1, std::memory_order_relaxed) * 7919u);
  return chance() % n == 0;
}

}  // namespace

std::size_t Experience::class_of(const Kind& kind) noexcept {
  const auto size = static_cast<std::size_t>(std::ranges::lower_bound(class_bounds, kind.moved_bytes) -
                                             class_bounds.begin());
  const std::size_t width =
      std::min<std::size_t>(std::bit_width(std::max(kind.targets, 1u) - 1), target_classes - 1);
  const std::size_t company = kind.others == 0 ? 0 : kind.others <= 3 ? 1 : 2;
  return (size * target_classes + width) * company_classes + company;
}

bool Experience::is_trial(Road second_best, const Kind& kind) noexcept {
  auto& tried = place(second_best, kind).tried;
  const std::uint16_t before = tried.load(std::memory_order_relaxed);
  if (before >= first_trials) return one_in(calls_a_trial);
  if (!one_in(calls_a_first_trial)) return false;
  tried.store(before + 1, std::memory_order_relaxed);
  return true;
}

bool Experience::is_lesson(Road road, const Kind& kind) const noexcept {
  return place(road, kind).seen.load(std::memory_order_relaxed) + 1u < slowest || one_in(calls_a_lesson);
}

void Experience::took(Road road, const Kind& kind, double predicted_us, double us) noexcept {
  if (!(predicted_us > 0)) return;
  Place& taken = place(road, kind);
  for (Place& each : classes_[class_of(kind)].places) {
    const double before = each.factor.load(std::memory_order_relaxed);
    double step = forgetting * (1 - before);
    if (&each == &taken) {
      const unsigned weight = std::min(each.seen.load(std::memory_order_relaxed) + 2u, slowest);
      each.seen.store(static_cast<std::uint16_t>(weight - 1), std::memory_order_relaxed);
      step = (std::clamp(us / predicted_us, before / 2, 2 * before) - before) / weight;
    }
    if (step != 0) each.factor.store(std::clamp(before + step, 1 / most, most), std::memory_order_relaxed);
  }
}

Experience& experience() noexcept {
  static Experience of_this_process;
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { of_this_process.forget_under_way(); });
  return of_this_process;
}

}  // namespace ec::codec
