// What one process says of a coder in a case of `ec_bench host`, and the sum of many processes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "bench/common/measure.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {

/// Plain memory, which all processes see.
struct HostResult {
  Result measured{};
  std::array<std::uint64_t, 16> ran{};  ///< calls that each back end finished, in the order of the list
  double ceiling_gbps = 0;              ///< source GB/s that the process measured, if it did

  /// Adds what another process did at the same time; the ceiling stays.
  void add(const HostResult& other) {
    measured.add(other.measured);
    std::ranges::transform(ran, other.ran, ran.begin(), std::plus<>{});
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
};

}  // namespace ec::bench
