// A histogram of the times of calls.
#include "bench/common/call_times.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace ec::bench {
namespace {

constexpr unsigned fine_bits = 7;

/// Below 256 ns each nanosecond is a class of its own.
std::size_t class_of(std::uint64_t nanoseconds) {
  const auto width = static_cast<unsigned>(std::bit_width(nanoseconds));
  if (width <= fine_bits + 1) return nanoseconds;
  const unsigned shift = width - fine_bits - 1;
  return (std::size_t{shift} << fine_bits) + (nanoseconds >> shift);
}

/// The middle of a class.
double nanoseconds_of(std::size_t index) {
  if (index < std::size_t{2} << fine_bits) return static_cast<double>(index);
  const auto shift = static_cast<int>((index >> fine_bits) - 1);
  const std::size_t head = index - (static_cast<std::size_t>(shift) << fine_bits);
  return std::ldexp(static_cast<double>(head) + 0.5, shift);
}

}  // namespace

void CallTimes::add(std::uint64_t nanoseconds) {
  const std::size_t index = class_of(nanoseconds);
  if (index >= counts_.size()) counts_.resize(index + 1);
  ++counts_[index];
}

void CallTimes::add(const CallTimes& other) {
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::uint64_t CallTimes::calls() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

double CallTimes::quantile_us(double q) const {
  const std::uint64_t all = calls();
  if (all == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(all - 1));
  std::size_t index = 0;
  for (std::uint64_t below = counts_[0]; below <= rank; below += counts_[index]) ++index;
  return 1e-3 * nanoseconds_of(index);
}

nlohmann::json CallTimes::to_json() const {
  auto pairs = nlohmann::json::array();
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i] > 0) pairs.push_back({i, counts_[i]});
  return pairs;
}

CallTimes CallTimes::from_json(const nlohmann::json& json) {
  CallTimes times;
  for (const auto& pair : json) {
    const auto index = pair.at(0).get<std::size_t>();
    times.counts_.resize(std::max(times.counts_.size(), index + 1));
    times.counts_[index] += pair.at(1).get<std::uint64_t>();
  }
  return times;
}

}  // namespace ec::bench
