#include "bench/common/stats.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ec::bench {

double quantile(std::span<const double> values, double q) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

double noise_percent(std::span<const double> values) {
  return 50 * (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

}  // namespace ec::bench
