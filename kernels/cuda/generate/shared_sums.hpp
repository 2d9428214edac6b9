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

/// A sum of planes is named by the byte whose bits say which planes are in it.
class SharedSums {
 public:
  /// value = a ^ b ^ c of values made before; c is 0 for a sum of two.
  struct Sum {
    std::uint8_t value, a, b, c;
  };

  /// `rows`: every sum that is needed (zeros and duplicates are fine).
  SharedSums(std::span<const std::uint8_t> rows, Strategy strategy);

  /// The sums in the order they are made; each costs one instruction.
  const std::vector<Sum>& order() const { return order_; }
  /// Two values whose XOR is `row` (non-zero, one of the rows given), the second 0 if the first is the row.
  std::pair<std::uint8_t, std::uint8_t> terms(std::uint8_t row) const;

 private:
  void nibble_sums(std::span<const std::uint8_t> rows);
  void covering(std::span<const std::uint8_t> rows);
  bool has(unsigned value) const { return have_[value]; }
  /// Whether `value` is the XOR of at most three values there are.
  bool makeable(unsigned value) const;
  /// Makes `value` out of two or three values there are, if it can be.
  bool make(std::uint8_t value);
  void note(Sum sum);

  std::vector<Sum> order_;
  std::vector<std::uint8_t> values_;  // the planes and the sums, in order
  std::bitset<256> have_;             // the same as a set, with 0
  std::bitset<256> reach_;            // XORs of at most two of them
};

}  // namespace ec::kernels::cuda
