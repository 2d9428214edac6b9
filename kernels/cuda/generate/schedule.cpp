#include "kernels/cuda/generate/schedule.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <span>
#include <utility>

#include "gf/gf256.hpp"

namespace ec::kernels::cuda {
namespace {

constexpr unsigned sources_a_step = 2;

/// The sums of one source's eight planes that its target planes share. Every target plane costs one 3-input
/// XOR per source, for both of its terms at once. So only the number of sums made on the way counts: the
/// fewest, found greedily, such that each target plane is one of them or the XOR of two; 11 or so a source
/// for 4 targets. A sum of planes is named by a byte: its bits are the numbers of the planes in the sum.
class SharedSums {
 public:
  /// value = a ^ b ^ c of values made before; c is 0 for a sum of two.
  struct Sum {
    std::uint8_t value, a, b, c;
  };

  /// `rows`: every sum that is needed (zeros and duplicates are fine).
  explicit SharedSums(std::span<const std::uint8_t> rows) {
    have_[0] = reach_[0] = true;
    for (unsigned b = 0; b < 8; ++b) add(static_cast<std::uint8_t>(1u << b));
    std::bitset<256> open;
    for (std::uint8_t row : rows) open[row] = true;
    while ((open &= ~reach_).any()) make(best_for(open));
  }

  /// The sums in the order they are made; each costs one instruction.
  const std::vector<Sum>& order() const { return order_; }
  /// Two values whose XOR is `row` (non-zero, one of the given rows), the second 0 if the first is the row.
  std::pair<std::uint8_t, std::uint8_t> terms(std::uint8_t row) const {
    if (have_[row]) return {row, 0};
    for (std::uint8_t v : values_)
      if (have_[row ^ v]) return {v, static_cast<std::uint8_t>(row ^ v)};
    return {0, 0};  // not one of the given rows
  }

 private:
  /// Whether `value` is the XOR of at most three values there are.
  bool makeable(unsigned value) const {
    return reach_[value] || std::ranges::any_of(values_, [&](std::uint8_t v) { return reach_[value ^ v]; });
  }

  /// Makes `value`, which must be makeable and not be there.
  void make(std::uint8_t value) {
    const auto made = [&](unsigned a, unsigned b, unsigned c) {
      order_.push_back(
          {value, static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b), static_cast<std::uint8_t>(c)});
      add(value);
    };
    for (const unsigned a : values_)
      if (have_[value ^ a]) return made(a, value ^ a, 0);
    for (const unsigned a : values_) {
      if (!reach_[value ^ a]) continue;
      for (const unsigned b : values_)
        if (have_[value ^ a ^ b]) return made(a, b, value ^ a ^ b);
    }
  }

  /// The sum to make next, for rows that are not within reach.
  std::uint8_t best_for(const std::bitset<256>& open) const {
    // The sum that brings most open rows within reach, among all sums that one instruction makes.
    // Ties go to the sum of fewer planes, which later sums are more likely to build on.
    unsigned best = 0, best_gain = 0;
    for (unsigned candidate = 1; candidate < 256; ++candidate) {
      if (have_[candidate] || !makeable(candidate)) continue;
      unsigned gain = open[candidate];
      for (std::uint8_t v : values_) gain += open[candidate ^ v];
      if (gain > best_gain ||
          (gain == best_gain && best != 0 && std::popcount(candidate) < std::popcount(best))) {
        best = candidate;
        best_gain = gain;
      }
    }
    // Every open row is four or more values away: build the first of them up, plane by plane, as far as one
    // instruction gets. There is always a next sum: one more plane than the longest sum so far.
    if (best_gain == 0) {
      const auto row = static_cast<unsigned>(open._Find_first());
      for (unsigned rest = row; rest != 0; rest &= rest - 1)
        if (const unsigned built = row ^ (rest & (rest - 1)); !have_[built] && makeable(built)) best = built;
    }
    return static_cast<std::uint8_t>(best);
  }

  void add(std::uint8_t value) {
    values_.push_back(value);
    have_[value] = true;
    reach_[value] = true;
    for (std::uint8_t v : values_) reach_[v ^ value] = true;
  }

  std::vector<Sum> order_;
  std::vector<std::uint8_t> values_;  // the planes and the sums, in order
  std::bitset<256> have_;             // the same as a set, with 0
  std::bitset<256> reach_;            // XORs of at most two values
};

/// The planes of a source that each target plane takes: bit j of row 8 t + i says whether bit j of a source
/// byte goes into bit i of its product for target t.
std::vector<std::uint8_t> plane_rows(const gf::Matrix& matrix, unsigned source) {
  std::vector<std::uint8_t> rows(8 * std::size_t{matrix.rows()});
  for (unsigned t = 0; t < matrix.rows(); ++t)
    for (unsigned j = 0; j < 8; ++j) {
      const unsigned product = gf::mul(matrix(t, source), static_cast<std::uint8_t>(1u << j));
      for (unsigned i = 0; i < 8; ++i) rows[8 * t + i] |= static_cast<std::uint8_t>((product >> i & 1) << j);
    }
  return rows;
}

/// Appends the XORs that add `terms` to one accumulator, two terms an instruction.
void add_terms(std::vector<Xor>& xors, Register accumulator, std::vector<Register> terms, bool first_write) {
  if (terms.empty()) return;
  if (!first_write) terms.insert(terms.begin(), accumulator);
  std::size_t at = 0;
  Register carry = terms[at++];
  do {
    Xor x{accumulator, carry, no_register, no_register};
    if (at < terms.size()) x.b = terms[at++];
    if (at < terms.size()) x.c = terms[at++];
    xors.push_back(x);
    carry = accumulator;
  } while (at < terms.size());
}

}  // namespace

Schedule make_schedule(const gf::Matrix& matrix) {
  Schedule schedule{matrix.cols(), matrix.rows(), {}};
  std::vector<bool> written(8 * std::size_t{matrix.rows()});
  for (unsigned s = 0; s < matrix.cols(); s += sources_a_step) {
    Step step;
    step.first = s;
    step.count = std::min(sources_a_step, matrix.cols() - s);
    std::vector<std::vector<Register>> terms(written.size());
    for (unsigned i = 0; i < step.count; ++i) {
      const std::vector<std::uint8_t> rows = plane_rows(matrix, s + i);
      SharedSums sums(rows);
      // Register of each value in the order the sums are made: the planes themselves, then the sums.
      std::array<Register, 256> place{};
      for (unsigned b = 0; b < 8; ++b) place[1u << b] = static_cast<Register>(8 * i + b);
      for (const SharedSums::Sum& sum : sums.order()) {
        place[sum.value] = static_cast<Register>(8 * step.count + step.sums++);
        const auto at = [&](std::uint8_t v) { return v == 0 ? no_register : place[v]; };
        step.xors.push_back({place[sum.value], at(sum.a), at(sum.b), at(sum.c)});
      }
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (rows[r] == 0) continue;
        const auto [a, b] = sums.terms(rows[r]);
        terms[r].push_back(place[a]);
        if (b != 0) terms[r].push_back(place[b]);
      }
    }
    for (std::size_t r = 0; r < terms.size(); ++r) {
      add_terms(step.xors, static_cast<Register>(accumulator_base + r), terms[r], !written[r]);
      if (!terms[r].empty()) written[r] = true;
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

}  // namespace ec::kernels::cuda
