// What is said about a set of timings.
#pragma once

#include <span>

namespace ec::bench {

/// The quantile `q` (0..1) of at least one value, interpolated between neighbours.
double quantile(std::span<const double> values, double q);
double median(std::span<const double> values);
/// Half the interquartile range in percent of the median: what a median of so many values may well be off by.
double noise_percent(std::span<const double> values);

}  // namespace ec::bench
