#include "plugin/codec/routing/experience.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <random>

#include "plugin/codec/stats/counters.hpp"

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
static_assert(std::has_single_bit(Experience::calls_a_rare_trial / Experience::calls_a_trial));

/// True of one call in n, by chance. A few nanoseconds, and nothing that threads share.
bool one_in(unsigned n) noexcept {
  static std::atomic<unsigned> threads{1};
  thread_local std::minstd_rand chance(threads.fetch_add(1, std::memory_order_relaxed) * 7919u);
  return chance() % n == 0;
}

}  // namespace

bool Experience::is_trial(Road second_best, const CallKind& kind) const noexcept {
  const unsigned step = get(place(second_best, kind).tried) / trials_a_step;
  return one_in(step == 0 ? calls_a_first_trial : calls_a_trial << (step - 1));
}

void Experience::tried(Road road, const CallKind& kind) noexcept {
  auto& count = place(road, kind).tried;
  if (const unsigned before = get(count); before < most_tried)
    set(count, static_cast<std::uint16_t>(before + 1));
}

void Experience::try_soon(Place& place) noexcept {
  // Mostly it is so already, and then nothing is written that other threads read.
  if (get(place.tried) > trials_a_step) set(place.tried, std::uint16_t{trials_a_step});
}

void Experience::is_best(Road road, const CallKind& kind) noexcept { try_soon(place(road, kind)); }

bool Experience::is_lesson(Road road, const CallKind& kind, bool brief) const noexcept {
  return get(place(road, kind).seen) + 1u < slowest || one_in(brief ? brief_calls_a_lesson : calls_a_lesson);
}

void Experience::took(Road road, const CallKind& kind, double predicted_us, double us) noexcept {
  if (!(predicted_us > 0)) return;
  Place& taken = place(road, kind);
  for (Place& each : learned_.kinds[Learned::place_of(kind)].by_road) {
    const double before = 1 + get(each.correction);
    double step = forgetting * (1 - before);
    if (&each == &taken) {
      const unsigned weight = std::min(get(each.seen) + 2u, slowest);
      set(each.seen, static_cast<std::uint16_t>(weight - 1));
      step = (std::clamp(us / predicted_us, before / 2, 2 * before) - before) / weight;
      if (us < surprise * before * predicted_us) try_soon(each);
    }
    if (step != 0) set(each.correction, std::clamp(before + step, 1 / most, most) - 1);
  }
}

Experience& experience() noexcept {
  static Learned learned;
  static Experience of_this_process(learned);
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { of_this_process.forget_under_way(); });
  return of_this_process;
}

}  // namespace ec::codec
