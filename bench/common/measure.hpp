// Verifies, then times, contestants in turn.
#pragma once

#include <string>
#include <vector>

#include "bench/common/contestant.hpp"

namespace ec::bench {

/// What one contestant did in one case.
struct Row {
  Case what;
  std::string contestant;
  std::string path;
  std::string verified_against;
  bool verified = false;             ///< if not, nothing was timed
  std::vector<double> call_seconds;  ///< one value a round: time of a sample / calls of one thread in it
  std::string baseline;
  double ratio = 0;  ///< speed over the baseline's, median of the rounds' ratios; 0 without a baseline
};

/// wall: time that passes. cpu: CPU time of the process over its threads, for a machine that others use too.
enum class ClockKind { wall, cpu };

struct Pace {
  unsigned rounds = 1;
  double sample_seconds = 0;  ///< at least
  ClockKind clock = ClockKind::wall;
};

/// Lines up the contestants of a case, checks their bytes, and takes one sample of each in every round, first
/// another one each time. Those that fail the check are not timed. Every contestant makes the same calls.
std::vector<Row> measure(Road& road, const Case& c, const Pace& pace);

}  // namespace ec::bench
