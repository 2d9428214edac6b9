// What calls took against what the cost table had predicted, learned while a process runs. A table is
// measured once, on stripes that lay in some cache, in pages of some size, on a machine with nothing else to
// do; a process has its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "plugin/codec/cost_table.hpp"

namespace ec::codec {

/// Kept apart for calls of different kinds. Thread safe, no locks: a race loses an observation.
class Experience {
 public:
  /// Who coded, and where the chunks lay.
  enum class Road : unsigned char { cpu, device_pinned, device_pageable };

  /// What a table gets wrong by the same factor. By bytes (class_bounds): a core's own cache, a shared one,
  /// memory. By targets (1, 2, to 4, to 8, more): arithmetic. By the other calls under way that are compared
  /// as well (none, to 3, more): caches, memory, copy helpers and the link are shared. The bounds are by
  /// reckoning; that alone and with eight threads are different is in
  /// bench/results/host-h200-slower-link.json.
  struct Kind {
    std::uint64_t moved_bytes = 0;  ///< read and written
    unsigned targets = 1;
    unsigned others = 0;
  };

  /// A call that is compared, while it is under way.
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
  /// After each trials_a_step that left it the second best the next ones are half as frequent, down to one of
  /// calls_a_rare_trial; they cost at most (close - 1) / calls_a_rare_trial of the time then.
  static constexpr unsigned calls_a_first_trial = 4;
  static constexpr unsigned calls_a_trial = 32;
  static constexpr unsigned calls_a_rare_trial = 256;
  static constexpr unsigned trials_a_step = 4;
  static constexpr double close = 2;
  /// A call that took less than this of what calls of its kind took lately is a surprise: its road is tried
  /// as often again as in the beginning.
  static constexpr double surprise = 0.75;
  /// Of so many calls one is learned from, once the first have been; every trial is. Of brief ones fewer, as
  /// what is learned is written where all threads read.
  static constexpr unsigned calls_a_lesson = 8;
  static constexpr unsigned brief_calls_a_lesson = 64;

  /// What calls of that kind took lately, over what was predicted; 1 before the first.
  double factor(Road road, const Kind& kind) const noexcept {
    return place(road, kind).factor.load(std::memory_order_relaxed);
  }
  /// A call finished. predicted_us: by the table alone. Each counts an eighth, the first ones more, and one
  /// that took much longer or shorter than those before (its thread was interrupted, say) as no more than
  /// twice or half of them. What the other roads took is believed a little less: it may be long ago.
  void took(Road road, const Kind& kind, double predicted_us, double us) noexcept;
  /// Whether this is the call that goes to the second best, which would take that road. By chance, so that no
  /// rhythm of the caller's keeps some calls from it.
  bool is_trial(Road second_best, const Kind& kind) noexcept;
  /// That road is the best one now.
  void is_best(Road road, const Kind& kind) noexcept;
  /// Whether a call on that road is to be learned from.
  bool is_lesson(Road road, const Kind& kind, bool brief) const noexcept;

 private:
  static constexpr std::size_t roads = 3;
  static constexpr std::size_t size_classes = class_bounds.size() + 1;
  static constexpr std::size_t target_classes = 5;
  static constexpr std::size_t company_classes = 3;
  struct Place {
    std::atomic<double> factor{1};
    std::atomic<std::uint16_t> seen{0};   ///< calls, while they are few
    std::atomic<std::uint16_t> tried{0};  ///< trials since it was the best, while they are few
  };
  /// Threads with calls of different kinds share no cache line.
  struct alignas(64) Class {
    std::array<Place, roads> places;
  };
  static std::size_t class_of(const Kind& kind) noexcept;
  static void try_soon(Place& place) noexcept;
  Place& place(Road road, const Kind& kind) noexcept {
    return classes_[class_of(kind)].places[static_cast<std::size_t>(road)];
  }
  const Place& place(Road road, const Kind& kind) const noexcept {
    return classes_[class_of(kind)].places[static_cast<std::size_t>(road)];
  }

  std::array<Class, size_classes * target_classes * company_classes> classes_;
  alignas(64) std::atomic<unsigned> under_way_{0};
};

/// Of this process.
Experience& experience() noexcept;

}  // namespace ec::codec
