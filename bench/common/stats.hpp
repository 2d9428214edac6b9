// What is said about a set of timings.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ec::bench {

/// The quantile `q` (0..1) of at least one value, interpolated between neighbours.
inline double quantile(std::vector<double> values, double q) {
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

}  // namespace ec::bench
