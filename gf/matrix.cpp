#include "gf/matrix.hpp"

#include <cassert>
#include <utility>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

void swap_rows(Matrix& a, unsigned x, unsigned y) {
  for (unsigned c = 0; c < a.cols(); ++c) std::swap(a(x, c), a(y, c));
}

void scale_row(Matrix& a, unsigned r, std::uint8_t factor) {
  for (unsigned c = 0; c < a.cols(); ++c) a(r, c) = mul(a(r, c), factor);
}

/// row `to` += factor * row `from`
void add_scaled_row(Matrix& a, unsigned to, unsigned from, std::uint8_t factor) {
  for (unsigned c = 0; c < a.cols(); ++c) a(to, c) ^= mul(factor, a(from, c));
}

}  // namespace

Matrix multiply(const Matrix& a, const Matrix& b) {
  assert(a.cols() == b.rows());
  Matrix product(a.rows(), b.cols());
  for (unsigned r = 0; r < a.rows(); ++r)
    for (unsigned i = 0; i < a.cols(); ++i) {
      const std::uint8_t factor = a(r, i);
      if (factor == 0) continue;
      for (unsigned c = 0; c < b.cols(); ++c) product(r, c) ^= mul(factor, b(i, c));
    }
  return product;
}

std::optional<Matrix> invert(Matrix a) {
  assert(a.rows() == a.cols());
  const unsigned n = a.rows();
  Matrix inverse(n, n);
  for (unsigned i = 0; i < n; ++i) inverse(i, i) = 1;

  for (unsigned column = 0; column < n; ++column) {
    unsigned pivot = column;
    while (pivot < n && a(pivot, column) == 0) ++pivot;
    if (pivot == n) return std::nullopt;
    if (pivot != column) {
      swap_rows(a, pivot, column);
      swap_rows(inverse, pivot, column);
    }
    const std::uint8_t scale = inv(a(column, column));
    scale_row(a, column, scale);
    scale_row(inverse, column, scale);
    for (unsigned r = 0; r < n; ++r) {
      const std::uint8_t factor = a(r, column);
      if (r == column || factor == 0) continue;
      add_scaled_row(a, r, column, factor);
      add_scaled_row(inverse, r, column, factor);
    }
  }
  return inverse;
}

}  // namespace ec::gf
