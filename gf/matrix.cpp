#include "gf/matrix.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

void scale(std::span<std::uint8_t> row, std::uint8_t factor) {
  for (std::uint8_t& cell : row) cell = mul(cell, factor);
}

}  // namespace

bool solve_last_columns(Matrix& a) {
  assert(a.rows() <= a.cols());
  const unsigned n = a.rows();
  const unsigned first = a.cols() - n;
  std::array<std::uint8_t, 256> pivots;
  for (unsigned i = 0; i < n; ++i) {
    const unsigned column = first + i;
    unsigned pivot = i;
    while (pivot < n && a(pivot, column) == 0) ++pivot;
    if (pivot == n) return false;
    pivots[i] = static_cast<std::uint8_t>(pivot);
    if (pivot != i) std::ranges::swap_ranges(a.row(i), a.row(pivot));
    // Every step on the row is done on the identity's row too: its column is kept in the place of A's.
    const std::uint8_t factor = inv(a(i, column));
    a(i, column) = 1;
    scale(a.row(i), factor);
    for (unsigned r = 0; r < n; ++r) {
      if (r == i) continue;
      const std::uint8_t there = std::exchange(a(r, column), std::uint8_t{0});
      if (there != 0) add_scaled(a.row(r), a.row(i), there);
    }
  }
  // Exchanged rows of A are exchanged columns of its inverse.
  for (unsigned i = n; i-- > 0;)
    if (pivots[i] != i)
      for (unsigned r = 0; r < n; ++r) std::swap(a(r, first + i), a(r, first + pivots[i]));
  return true;
}

}  // namespace ec::gf
