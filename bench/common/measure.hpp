// Verifies, then times, contestants in turn: the one measuring loop.
//
// Google Benchmark's loop does not serve: no two of its samples belong to one round, and the memory of every
// case would be there at once. Ratios are taken here in each round, of samples a few milliseconds apart, on a
// machine whose clock and neighbours change.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/stats.hpp"
#include "bench/common/workers.hpp"

namespace ec::bench {

/// Somebody who does the work of a case. The functions run in many threads at once, each on stripes of its
/// own, and throw std::runtime_error if the work itself reports an error.
struct Contestant {
  std::string name;
  unsigned threads = 1;                      ///< that make calls at the same time
  std::function<void()> prepare{};           ///< before each sample, by thread 0, not timed; may be empty
  std::function<void(std::size_t)> run{};    ///< codes one stripe
  std::function<void(std::size_t)> spoil{};  ///< makes bytes that are not written show; may be empty
  std::function<bool(std::size_t)> right{};  ///< whether run() left the right bytes, all of them
};

/// The stripes of a case: each thread takes turns on stripes of its own.
struct StripeOrder {
  std::size_t threads = 1;  ///< the most of any contestant
  std::size_t turns = 1;
  std::size_t checked_turns = 1;  ///< from the first to the last

  std::size_t at(std::size_t thread, std::size_t turn) const { return turn % turns * threads + thread; }
  std::size_t stripes() const { return threads * turns; }
};

/// How long is measured. Each sample is taken by time, so that its threads end together, but for their last
/// calls.
struct Pace {
  std::size_t rounds = 1;
  double sample_seconds = 0;
  double warm_seconds = 0;  ///< of calls before the first sample
  bool each_call = false;   ///< time each call, which costs a reading of the clock; else many at once
  /// Called before each sample; after it, all processes that measure together begin.
  std::function<void()> before_sample = [] {};
  /// Whether all processes that measure together found right bytes: no process waits for one that stops.
  std::function<bool(bool)> agree = [](bool right) { return right; };
  /// Measures something else in between; may be empty. Calls that are not timed follow.
  std::function<void()> before_round{};
};

/// What all threads of a contestant did in one sample.
struct Sample {
  double calls = 0;
  /// Of one call, of the whole process: helpers, a driver's threads and programs that have ended count.
  double cpu_seconds = 0;
  double begun = 0, ended = 1;  ///< the first call and the last one, in seconds of a clock of all processes

  /// Threads that share a core work one after the other: the sum of their own rates would be higher.
  double calls_per_second() const { return calls / (ended - begun); }
};

inline constexpr std::size_t most_rounds = 1000;

/// Of one contestant. Plain memory, which goes from one process to another.
struct Result {
  bool verified = false;  ///< by all processes; if not, its samples say nothing
  std::size_t rounds = 0;
  std::array<Sample, most_rounds> samples{};
  CallHistogram calls{};  ///< where each call was timed

  /// Adds what another process did at the same time. Throws std::runtime_error if it did not measure the
  /// same.
  void add(const Result& other);
};

/// One result for each contestant: checks their bytes, with all threads at once as they will be timed, before
/// and after the warm calls; then takes one sample of each in every round, in an order where none follows
/// itself, and checks what the last one left. Samples go on in the stripes where the last one ended, for what
/// another contestant has just read is not cold. workers: at least as many threads as any contestant has.
std::vector<Result> measure(Workers& workers, const std::vector<Contestant>& contestants,
                            const StripeOrder& order, const Pace& pace);

/// What is said of the results of one case. A contestant is known by its place in the list. Figures of one
/// that is not verified are not a number.
class Figures {
 public:
  using Place = std::optional<std::size_t>;

  /// by_cpu: a call takes what the process had of the CPU, in place of what passed.
  Figures(const std::vector<Contestant>& contestants, std::span<const Result> results, bool by_cpu = false);

  bool verified(std::size_t i) const { return !seconds_[i].empty(); }
  /// The fastest of the verified contestants that `is` takes, or whose names begin so.
  Place fastest(const std::function<bool(const Contestant&)>& is) const;
  Place fastest(std::string_view prefix) const {
    return fastest([prefix](const Contestant& c) { return c.name.starts_with(prefix); });
  }
  /// The verified contestant of that name.
  Place find(std::string_view name) const {
    return fastest([name](const Contestant& c) { return c.name == name; });
  }
  double call_seconds(std::size_t i) const { return median(seconds_[i]); }
  /// Of all threads, whose calls do `work` each.
  double per_second(std::size_t i, double work) const {
    return work * contestants_[i].threads / call_seconds(i);
  }
  double noise_percent(std::size_t i) const { return bench::noise_percent(seconds_[i]); }
  /// How many times as fast as `base`, if both are verified, it was: the median over the rounds.
  std::optional<double> times(std::size_t i, Place base) const;

 private:
  const std::vector<Contestant>& contestants_;
  std::vector<std::vector<double>> seconds_;  ///< of a call in its thread; none if not verified
};

}  // namespace ec::bench
