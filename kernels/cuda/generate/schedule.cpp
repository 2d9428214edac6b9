// From a matrix to a schedule of XORs over bit planes.
#include "kernels/cuda/generate/schedule.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "gf/gf256.hpp"
#include "kernels/cuda/generate/shared_sums.hpp"

namespace ec::kernels::cuda {
namespace {

constexpr unsigned sources_a_step = 2;

/// Which of a source's planes each target plane takes: 8 rows per target.
std::vector<std::uint8_t> plane_rows(const gf::Matrix& matrix, unsigned source) {
  std::vector<std::uint8_t> rows(8 * std::size_t{matrix.rows()});
  for (unsigned t = 0; t < matrix.rows(); ++t) bit_matrix(matrix(t, source), &rows[8 * t]);
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

void bit_matrix(std::uint8_t coefficient, std::uint8_t rows[8]) {
  std::fill_n(rows, 8, std::uint8_t{0});
  for (unsigned j = 0; j < 8; ++j) {
    const unsigned product = gf::mul(coefficient, static_cast<std::uint8_t>(1u << j));
    for (unsigned i = 0; i < 8; ++i) rows[i] |= static_cast<std::uint8_t>((product >> i & 1) << j);
  }
}

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
