#include "gf/dialects.hpp"

#include "gf/generator.hpp"
#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

using Points = std::array<std::uint8_t, max_chunks>;

/// All points in order, or 0, then the powers of 2.
Points points_of(bool powers) {
  Points points{};
  for (unsigned i = 1; i < max_chunks; ++i)
    points[i] = powers ? log_tables.exp[i - 1] : static_cast<std::uint8_t>(i);
  return points;
}

/// The values at points[k..] of the polynomial that has the data at points[..k], by Lagrange: cell (r, c) is
/// the product over the other data points p of (x - p) / (points[c] - p), x = points[k + r].
Matrix interpolation(const Points& points, unsigned k, unsigned m) {
  Matrix a(m, k);
  for (unsigned c = 0; c < k; ++c)
    for (unsigned r = 0; r < m; ++r) {
      std::uint8_t above = 1, below = 1;
      for (unsigned other = 0; other < k; ++other) {
        if (other == c) continue;
        above = mul(above, points[k + r] ^ points[other]);
        below = mul(below, points[c] ^ points[other]);
      }
      a(r, c) = mul(above, inv(below));
    }
  return a;
}

}  // namespace

std::optional<Matrix> dialect_matrix(std::string_view dialect, unsigned k, unsigned m) {
  if (dialect == "isal_reed_sol_van") return coding_matrix(Technique::reed_sol_van, k, m);
  if (dialect == "isal_cauchy" || dialect == "klauspost_cauchy") return cauchy_matrix(k, m);
  if (dialect == "jerasure_reed_sol_van") return coding_matrix(Technique::jerasure_reed_sol_van, k, m);
  if (dialect == "jerasure_reed_sol_r6_op" && m == 2)
    return coding_matrix(Technique::jerasure_reed_sol_r6_op, k, m);
  if (dialect == "zfec") return interpolation(points_of(true), k, m);
  if (dialect == "klauspost") return interpolation(points_of(false), k, m);
  return std::nullopt;
}

}  // namespace ec::gf
