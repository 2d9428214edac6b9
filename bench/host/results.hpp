// What `ec_bench host` says of a case: the results of one coder in one process, and their sum over processes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/common/measure.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {

inline constexpr std::size_t most_rounds = 1000;

/// Of one coder in one case. Plain memory, which goes from one process to another.
struct HostResult {
  bool verified = false;
  std::size_t rounds = 0;
  std::array<Sample, most_rounds> samples{};
  CallTimes calls{};
  std::array<std::uint64_t, 16> ran{};  ///< calls that each back end finished, in the order of the list
  double ceiling_gbps = 0;  ///< source GB/s of the link; of a device copy for chunks on the device

  HostResult() = default;
  explicit HostResult(const Result& result)
      : verified(result.verified), rounds(result.samples.size()), calls(result.calls) {
    std::ranges::copy(result.samples, samples.begin());
  }

  /// Adds what another process did at the same time; the ceiling stays. Throws std::runtime_error if the
  /// other one did not measure the same.
  void add(const HostResult& other) {
    if (rounds != other.rounds) throw std::runtime_error("the processes did not measure the same");
    verified = verified && other.verified;
    calls.add(other.calls);
    std::ranges::transform(ran, other.ran, ran.begin(), std::plus<>{});
    for (std::size_t i = 0; i < rounds; ++i) {
      auto& [calls_of_all, cpu_of_all] = samples[i];
      const auto& [calls_of_one, cpu_of_one] = other.samples[i];
      cpu_of_all = (cpu_of_all * calls_of_all + cpu_of_one * calls_of_one) / (calls_of_all + calls_of_one);
      calls_of_all += calls_of_one;
    }
  }

  double calls_per_second() const {
    return median_of([](const Sample& s) { return s.calls_per_second; });
  }
  double cpu_seconds() const {
    return median_of([](const Sample& s) { return s.cpu_seconds; });
  }
  double noise_percent() const {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < rounds; ++i) seconds.push_back(1 / samples[i].calls_per_second);
    return bench::noise_percent(seconds);
  }
  /// "cuda", "cuda+x86": those with the most calls first.
  std::string chosen() const {
    std::vector<std::size_t> order(kernels::backends().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return ran[i]; });
    std::string names;
    for (const std::size_t i : order)
      if (ran[i] > 0) names += (names.empty() ? "" : "+") + std::string(kernels::backends()[i]->name());
    return names;
  }
  /// Of the calls, those of the back end with the most.
  double chosen_share() const {
    return static_cast<double>(std::ranges::max(ran)) /
           static_cast<double>(std::accumulate(ran.begin(), ran.end(), std::uint64_t{0}));
  }

 private:
  double median_of(const std::function<double(const Sample&)>& figure) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < rounds; ++i) values.push_back(figure(samples[i]));
    return median(values);
  }
};

}  // namespace ec::bench
