// The sums of one source's eight planes that its target planes share.
#include "kernels/cuda/generate/shared_sums.hpp"

#include <algorithm>
#include <bit>

namespace ec::kernels::cuda {

SharedSums::SharedSums(std::span<const std::uint8_t> rows) {
  have_[0] = reach_[0] = true;
  for (unsigned b = 0; b < 8; ++b) add(static_cast<std::uint8_t>(1u << b));
  std::bitset<256> open;
  for (std::uint8_t row : rows) open[row] = true;
  while ((open &= ~reach_).any()) make(best_for(open));
}

void SharedSums::add(std::uint8_t value) {
  values_.push_back(value);
  have_[value] = true;
  reach_[value] = true;
  for (std::uint8_t v : values_) reach_[v ^ value] = true;
}

bool SharedSums::makeable(unsigned value) const {
  return reach_[value] || std::ranges::any_of(values_, [&](std::uint8_t v) { return reach_[value ^ v]; });
}

void SharedSums::make(std::uint8_t value) {
  const auto made = [&](unsigned a, unsigned b, unsigned c) {
    order_.push_back(
        {value, static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b), static_cast<std::uint8_t>(c)});
    add(value);
  };
  for (const unsigned a : values_)
    if (has(value ^ a)) return made(a, value ^ a, 0);
  for (const unsigned a : values_) {
    if (!reach_[value ^ a]) continue;
    for (const unsigned b : values_)
      if (has(value ^ a ^ b)) return made(a, b, value ^ a ^ b);
  }
}

std::uint8_t SharedSums::best_for(const std::bitset<256>& open) const {
  // Of the sums that one instruction makes, the one that brings most open rows within reach.
  // Ties go to the sum of fewer planes, which later ones are more likely to build on.
  unsigned best = 0, best_gain = 0;
  for (unsigned candidate = 1; candidate < 256; ++candidate) {
    if (has(candidate) || !makeable(candidate)) continue;
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
  return static_cast<std::uint8_t>(best);
}

std::pair<std::uint8_t, std::uint8_t> SharedSums::terms(std::uint8_t row) const {
  if (has(row)) return {row, 0};
  for (std::uint8_t v : values_)
    if (has(row ^ v)) return {v, static_cast<std::uint8_t>(row ^ v)};
  return {0, 0};  // not one of the rows given
}

}  // namespace ec::kernels::cuda
