// What calls took against what the cost table had predicted, learned while a process runs. A table is
// measured once, on stripes that lay in some cache, in pages of some size, on a machine with nothing else to
// do; a process has its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "plugin/codec/routing/learned.hpp"

namespace ec::codec {

/// Thread safe, no locks: a race loses an observation.
class Experience {
 public:
  /// Learns into `learned`, which must outlive it.
  explicit Experience(Learned& learned) noexcept : learned_(learned) {}

  /// A call that is compared and not brief, while it is under way.
  class UnderWay {
   public:
    explicit UnderWay(Experience& experience) noexcept
        : count_(experience.under_way_), others_(count_.fetch_add(1, std::memory_order_relaxed)) {}
    ~UnderWay() { count_.fetch_sub(1, std::memory_order_relaxed); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

    /// That were under way when it began.
    unsigned others() const noexcept { return others_; }
    unsigned others_now() const noexcept { return count_.load(std::memory_order_relaxed) - 1; }

   private:
    std::atomic<unsigned>& count_;
    const unsigned others_;
  };
  unsigned under_way() const noexcept { return under_way_.load(std::memory_order_relaxed); }
  /// In a child of fork(), which has none of the threads that made them.
  void forget_under_way() noexcept { under_way_.store(0, std::memory_order_relaxed); }

  /// No factor leaves 1 / most .. most: then the table is wrong, and to be measured anew.
  static constexpr double most = 4;
  /// Of so many calls whose best two back ends are predicted to be within `close`, one goes to the second
  /// best: whoever is never asked could never be seen to have become faster. The first trials come sooner.
  /// After each further trials_a_step that left it the second best they are half as frequent, down to one of
  /// calls_a_rare_trial; they cost at most (close - 1) / calls_a_rare_trial of the time then.
  static constexpr unsigned calls_a_first_trial = 4;
  static constexpr unsigned calls_a_trial = 32;
  static constexpr unsigned calls_a_rare_trial = 256;
  static constexpr unsigned trials_a_step = 4;
  static constexpr double close = 2;
  /// A call that took less than this of what calls of its kind took lately is a surprise: its road is tried
  /// as often again as after the first trials.
  static constexpr double surprise = 0.75;
  /// Of so many calls one is learned from, once the first have been; every trial is. Of brief ones fewer, as
  /// what is learned is written where all threads read.
  static constexpr unsigned calls_a_lesson = 8;
  static constexpr unsigned brief_calls_a_lesson = 64;

  /// What calls of that kind took lately, over what was predicted; 1 before the first.
  double factor(Road road, const CallKind& kind) const noexcept {
    return 1 + get(place(road, kind).correction);
  }
  /// A call finished. predicted_us: by the table alone. Each counts an eighth, the first ones more, and one
  /// that took much longer or shorter than those before (its thread was interrupted, say) as no more than
  /// twice or half of them. What the other roads took is believed a little less: it may be long ago.
  void took(Road road, const CallKind& kind, double predicted_us, double us) noexcept;
  /// Whether this is the call that goes to the second best, which would take that road. By chance, so that no
  /// rhythm of the caller's keeps some calls from it.
  bool is_trial(Road second_best, const CallKind& kind) const noexcept;
  /// A trial of that road came to its end there, and was learned from.
  void tried(Road road, const CallKind& kind) noexcept;
  /// That road is the best one now.
  void is_best(Road road, const CallKind& kind) noexcept;
  /// Whether a call on that road is to be learned from.
  bool is_lesson(Road road, const CallKind& kind, bool brief) const noexcept;

 private:
  using Place = Learned::OfRoad;
  template <class T>
  static T get(const T& number) noexcept {
    return std::atomic_ref(const_cast<T&>(number)).load(std::memory_order_relaxed);
  }
  template <class T>
  static void set(T& number, T to) noexcept {
    std::atomic_ref(number).store(to, std::memory_order_relaxed);
  }
  static void try_soon(Place& place) noexcept;
  Place& place(Road road, const CallKind& kind) const noexcept {
    return learned_.kinds[Learned::place_of(kind)].by_road[static_cast<std::size_t>(road)];
  }

  Learned& learned_;
  alignas(64) std::atomic<unsigned> under_way_{0};
};

/// Of this process; what it learns lies beside its counters.
Experience& experience() noexcept;

}  // namespace ec::codec
