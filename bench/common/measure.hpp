// Verifies, then times, contestants in turn.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/common/call_times.hpp"
#include "bench/common/workers.hpp"
#include "gf/generator.hpp"

namespace ec::bench {

/// One line-up: every contestant does exactly this.
struct Case {
  std::string op;
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  unsigned erasures = 0;         ///< chunks lost; 0 where the operation loses none
  std::size_t object_bytes = 0;  ///< of one stripe, before padding
  std::size_t chunk_bytes = 0;
  unsigned threads = 1;  ///< each coding stripes of its own
};

/// Somebody who codes the stripes of a case. The functions run in many threads at once, each on stripes of
/// its own, and throw std::runtime_error if the coding itself reports an error.
struct Contestant {
  std::string name;
  unsigned threads = 1;                      ///< that make calls at the same time
  std::function<void(std::size_t)> run;      ///< codes one stripe
  std::function<void(std::size_t)> spoil{};  ///< makes bytes that are not written show; may be empty
  std::function<bool(std::size_t)> right;    ///< whether run() left the right bytes, all of them
};

/// The stripes of a case: each thread takes turns on stripes of its own.
struct StripeOrder {
  std::size_t threads = 1;  ///< the most of any contestant
  std::size_t turns = 1;
  std::size_t checked_turns = 1;  ///< from the first to the last

  std::size_t at(std::size_t thread, std::size_t turn) const { return turn % turns * threads + thread; }
  std::size_t stripes() const { return threads * turns; }
};

/// How long is measured. Each sample is taken by time: no thread of it idles while another one works.
struct Pace {
  std::size_t rounds = 1;
  double sample_seconds = 0;
  double warm_seconds = 0;  ///< of calls before the first sample
  /// No further round after this time, once there are three.
  double case_seconds = std::numeric_limits<double>::infinity();
  bool each_call = false;  ///< time each call, which costs a reading of the clock; else many at once
  /// Before each sample its contestant takes all its turns once: what another one wrote past the caches is in
  /// them again.
  bool settles = false;
  /// Called before each sample; after it, all processes that measure together begin.
  std::function<void()> before_sample = [] {};
  /// Measures something else in between; may be empty. Calls that are not timed follow.
  std::function<void()> before_round{};
};

/// What all threads of a contestant did in one sample.
struct Sample {
  double calls_per_second = 0;
  double cpu_seconds = 0;  ///< of one call, of the whole process: helpers and a driver's threads count
};

struct Result {
  bool verified = false;  ///< if not, nothing was timed
  std::vector<Sample> samples{};
  CallTimes calls{};  ///< where each call was timed
};

/// One result for each contestant: checks their bytes, with all threads at once as they will be timed, before
/// and after the warm calls; then takes one sample of each in every round, each round in another order.
/// Samples go on in the stripes where the last one ended, for what another contestant has just read is not
/// cold. workers: at least as many threads as any contestant has.
std::vector<Result> measure(Workers& workers, const std::vector<Contestant>& contestants,
                            const StripeOrder& order, const Pace& pace);

/// Seconds that a call of each sample took in its thread.
std::vector<double> call_seconds(const Result& result, unsigned threads);
/// The median of the samples' ratios: how many times as fast as `base` the other was.
double speed_ratio(const Result& result, const Result& base);

}  // namespace ec::bench
