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
constexpr double forgetting = 1. / 512;
/// Trials after which they are no rarer: one step at the first, and one for each time they halve.
constexpr unsigned most_tried =
    Experience::trials_a_step *
    (1 + std::countr_zero(Experience::calls_a_rare_trial / Experience::calls_a_trial));

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
  const unsigned before = tried.load(std::memory_order_relaxed);
  const unsigned step = before / trials_a_step;
  if (!one_in(step == 0 ? calls_a_first_trial : calls_a_trial << (step - 1))) return false;
  if (before < most_tried) tried.store(static_cast<std::uint16_t>(before + 1), std::memory_order_relaxed);
  return true;
}

void Experience::try_soon(Place& place) noexcept {
  // Mostly it is so already, and then nothing is written that other threads read.
  if (place.tried.load(std::memory_order_relaxed) > trials_a_step)
    place.tried.store(trials_a_step, std::memory_order_relaxed);
}

void Experience::is_best(Road road, const Kind& kind) noexcept { try_soon(place(road, kind)); }

bool Experience::is_lesson(Road road, const Kind& kind, bool brief) const noexcept {
  return place(road, kind).seen.load(std::memory_order_relaxed) + 1u < slowest ||
         one_in(brief ? brief_calls_a_lesson : calls_a_lesson);
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
      if (us < surprise * before * predicted_us) try_soon(each);
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
