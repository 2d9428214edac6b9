// The sums of one source's eight planes that its target planes share.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {

/// Every target plane costs one 3-input XOR per source, both of its terms at once. So what counts is the
/// number of sums made on the way: the fewest, found greedily, such that what each target plane needs is one
/// of them or the XOR of two; 11 or so a source for 4 targets. A sum of planes is named by the byte whose
/// bits say which planes are in it.
class SharedSums {
 public:
  /// value = a ^ b ^ c of values made before; c is 0 for a sum of two.
  struct Sum {
    std::uint8_t value, a, b, c;
  };

  /// `rows`: every sum that is needed (zeros and duplicates are fine).
  explicit SharedSums(std::span<const std::uint8_t> rows);

  /// The sums in the order they are made; each costs one instruction.
  const std::vector<Sum>& order() const { return order_; }
  /// Two values whose XOR is `row` (non-zero, one of the rows given), the second 0 if the first is the row.
  std::pair<std::uint8_t, std::uint8_t> terms(std::uint8_t row) const;

 private:
  bool has(unsigned value) const { return have_[value]; }
  /// Whether `value` is the XOR of at most three values there are.
  bool makeable(unsigned value) const;
  /// Makes `value`, which must be makeable and not be there.
  void make(std::uint8_t value);
  /// The sum to make next, for rows that are not within reach.
  std::uint8_t best_for(const std::bitset<256>& open) const;
  void add(std::uint8_t value);

  std::vector<Sum> order_;
  std::vector<std::uint8_t> values_;  // the planes and the sums, in order
  std::bitset<256> have_;             // the same as a set, with 0
  std::bitset<256> reach_;            // XORs of at most two of them
};

}  // namespace ec::kernels::cuda
