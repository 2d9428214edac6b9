// What is said about a set of timings.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace ec::bench {

/// The quantile `q` (0..1) of the values, interpolated between neighbours; not a number if there is none.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

/// Half the interquartile range in percent of the median: what a median of so many values may well be off by.
inline double noise_percent(const std::vector<double>& values) {
  return 50 * (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

/// How long calls took, as a histogram: a sum of many threads and processes, quantiles. Plain memory, which
/// goes from one process to another. 128 classes for each power of two of nanoseconds, up to 4 s: a quantile
/// is off by 0.4 % at most. Used by one thread.
class CallHistogram {
 public:
  void add(std::uint64_t nanoseconds) { ++counts_[class_of(static_cast<float>(nanoseconds))]; }
  void add(const CallHistogram& other) {
    std::ranges::transform(counts_, other.counts_, counts_.begin(), std::plus<>{});
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

 private:
  // A class is the exponent and the first seven bits of the fraction of a float, counted from those of 1.
  static constexpr std::uint32_t first = 0x3f80;
  static constexpr std::size_t classes = std::size_t{32} << 7;
  static std::size_t class_of(float nanoseconds) {
    return std::min<std::size_t>((std::bit_cast<std::uint32_t>(std::max(nanoseconds, 1.0f)) >> 16) - first,
                                 classes - 1);
  }
  static double middle_of(std::size_t index) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(index + first) << 16 | 0x8000);
  }

  std::array<std::uint64_t, classes> counts_{};
};

}  // namespace ec::bench
