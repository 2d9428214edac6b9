// How long calls took, as a histogram: constant memory, a sum of many threads and processes, quantiles.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace ec::bench {

/// 128 classes for each power of two of nanoseconds: a quantile is off by 0.4 % at most. Used by one thread.
class CallTimes {
 public:
  void add(std::uint64_t nanoseconds) { add(class_of(static_cast<float>(nanoseconds)), 1); }
  void add(const CallTimes& other) {
    for (std::size_t i = 0; i < other.counts_.size(); ++i) add(i, other.counts_[i]);
  }

  std::uint64_t calls() const { return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0}); }

  /// Of q (0..1), in microseconds; 0 if there are no calls.
  double quantile_us(double q) const {
    const std::uint64_t all = calls();
    if (all == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(all - 1));
    std::size_t index = 0;
    for (std::uint64_t below = counts_[0]; below <= rank; below += counts_[index]) ++index;
    return 1e-3 * middle_of(index);
  }

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(CallTimes, counts_)

 private:
  // A class is the exponent and the first seven bits of the fraction of a float, counted from those of 1.
  static constexpr std::uint32_t first = 0x3f80;
  static std::size_t class_of(float nanoseconds) {
    return (std::bit_cast<std::uint32_t>(std::max(nanoseconds, 1.0f)) >> 16) - first;
  }
  static double middle_of(std::size_t index) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(index + first) << 16 | 0x8000);
  }
  void add(std::size_t index, std::uint64_t calls) {
    if (index >= counts_.size()) counts_.resize(index + 1);
    counts_[index] += calls;
  }

  std::vector<std::uint64_t> counts_;  ///< as long as the largest class needs
};

}  // namespace ec::bench
