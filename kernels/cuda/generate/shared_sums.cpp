#include "kernels/cuda/generate/shared_sums.hpp"

#include <algorithm>
#include <bit>

namespace ec::kernels::cuda {

SharedSums::SharedSums(std::span<const std::uint8_t> rows, Strategy strategy) {
  have_[0] = reach_[0] = true;
  for (unsigned b = 0; b < 8; ++b) {
    note({static_cast<std::uint8_t>(1u << b), 0, 0, 0});
  }
  order_.clear();
  if (strategy == Strategy::covering)
    covering(rows);
  else
    nibble_sums(rows);
}

void SharedSums::note(Sum sum) {
  order_.push_back(sum);
  values_.push_back(sum.value);
  have_[sum.value] = true;
  reach_[sum.value] = true;
  for (std::uint8_t v : values_) reach_[v ^ sum.value] = true;
}

bool SharedSums::makeable(unsigned value) const {
  return reach_[value] || std::ranges::any_of(values_, [&](std::uint8_t v) { return reach_[value ^ v]; });
}

bool SharedSums::make(std::uint8_t value) {
  if (has(value)) return true;
  for (std::uint8_t a : values_)
    if (const unsigned b = value ^ a; has(b)) {
      note({value, a, static_cast<std::uint8_t>(b), 0});
      return true;
    }
  for (std::uint8_t a : values_) {
    const unsigned rest = value ^ a;
    if (!reach_[rest]) continue;
    for (std::uint8_t b : values_)
      if (const unsigned c = rest ^ b; has(c)) {
        note({value, a, b, static_cast<std::uint8_t>(c)});
        return true;
      }
  }
  return false;
}

void SharedSums::nibble_sums(std::span<const std::uint8_t> rows) {
  for (std::uint8_t row : rows)
    for (unsigned half : {row & 0x0fu, row & 0xf0u}) {
      if (std::popcount(half) == 4) make(static_cast<std::uint8_t>(half & 0x33));
      if (half != 0) make(static_cast<std::uint8_t>(half));
    }
}

void SharedSums::covering(std::span<const std::uint8_t> rows) {
  std::bitset<256> open;
  for (std::uint8_t row : rows) open[row] = true;
  while ((open &= ~reach_).any()) {
    // Of the sums that one instruction makes, the one that brings most open rows within reach.
    // Ties go to the sum of fewer planes, which later ones are more likely to build on.
    unsigned best = 0, best_gain = 0;
    for (unsigned candidate = 1; candidate < 256; ++candidate) {
      if (has(candidate)) continue;
      if (!makeable(candidate)) continue;
      unsigned gain = open[candidate];
      for (std::uint8_t v : values_) gain += open[candidate ^ v];
      if (gain > best_gain ||
          (gain == best_gain && best != 0 && std::popcount(candidate) < std::popcount(best))) {
        best = candidate;
        best_gain = gain;
      }
    }
    // Every open row is four or more values away: build the first of them up, plane by plane, as far as one
    // instruction gets. There is always a next sum: one more plane than the longest there is.
    if (best_gain == 0) {
      const auto row = static_cast<unsigned>(open._Find_first());
      for (unsigned rest = row; rest != 0; rest &= rest - 1)
        if (const unsigned built = row ^ (rest & (rest - 1)); !has(built) && makeable(built)) best = built;
    }
    make(static_cast<std::uint8_t>(best));
  }
}

std::pair<std::uint8_t, std::uint8_t> SharedSums::terms(std::uint8_t row) const {
  if (has(row)) return {row, 0};
  for (std::uint8_t v : values_)
    if (has(row ^ v)) return {v, static_cast<std::uint8_t>(row ^ v)};
  return {0, 0};  // not one of the rows given
}

}  // namespace ec::kernels::cuda
