#include "gf/generator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

/// Row r holds the powers of 2^r, r = 0 .. m-1 (ISA-L's gf_gen_rs_matrix).
Matrix vandermonde(unsigned k, unsigned m) {
  Matrix a(m, k);
  std::uint8_t base = 1;
  for (unsigned r = 0; r < m; ++r) {
    std::uint8_t power = 1;
    for (unsigned c = 0; c < k; ++c) {
      a(r, c) = power;
      power = mul(power, base);
    }
    base = mul(base, 2);
  }
  return a;
}

/// A polynomial of degree < k, known at the points 0 .. k-1, at the points k .. k+m-2 and at infinity: cell
/// (r, c) is a product of 1 / (x + c), of a factor of its row and of one of its column, with x = k + r and
/// sums in the field. The factors make row 0 and column 0 all ones.
Matrix jerasure_vandermonde(unsigned k, unsigned m) {
  const auto element = [](unsigned value) { return static_cast<std::uint8_t>(value); };
  Matrix a(m, k);
  for (unsigned c = 0; c < k; ++c) {
    const std::uint8_t column = mul(element(k ^ c), inv(element(k)));
    for (unsigned r = 0; r + 1 < m; ++r) {
      const unsigned x = k + r;
      a(r, c) = mul(column, mul(element(x), inv(element(x ^ c))));
    }
    a(m - 1, c) = column;
  }
  return a;
}

/// ISA-L's gf_gen_cauchy1_matrix: cell (r, c) is 1 / ((k + r) + c).
Matrix cauchy_matrix(unsigned k, unsigned m) {
  Matrix a(m, k);
  for (unsigned r = 0; r < m; ++r)
    for (unsigned c = 0; c < k; ++c) a(r, c) = inv(static_cast<std::uint8_t>((k + r) ^ c));
  return a;
}

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

bool vandermonde_is_safe(unsigned k, unsigned m) {
  return m <= 3 || k <= 3 || (k == 4 && k + m <= 25) || (k == 5 && k + m <= 10) || (k <= 21 && m == 4);
}

}  // namespace

std::optional<Technique> parse_technique(std::string_view text) {
  const auto at = std::ranges::find(technique_names, text) - technique_names.begin();
  return at == std::ssize(technique_names) ? std::nullopt : std::optional(static_cast<Technique>(at));
}

std::string_view name(Technique technique) { return technique_names[static_cast<std::size_t>(technique)]; }

std::string shape_error(Technique technique, unsigned k, unsigned m) {
  if (k < 2) return fmt::format("k={} must be at least 2", k);
  if (m < 1) return fmt::format("m={} must be at least 1", m);
  // Each value alone first: the sum of two unsigned values from a profile may wrap.
  if (k > max_chunks || m > max_chunks || k + m > max_chunks)
    return fmt::format("k={} and m={}: k+m must be at most {}", k, m, max_chunks);
  if (technique == Technique::reed_sol_van && !vandermonde_is_safe(k, m))
    return fmt::format(
        "k={} and m={}: technique=reed_sol_van cannot recover every loss of m chunks in this shape; allowed "
        "are m <= 3, or m = 4 with k <= 21, or k <= 3, or k = 4 with m <= 21, or k = 5 with m <= 5; "
        "technique=cauchy has no such limit",
        k, m);
  if (technique == Technique::jerasure_reed_sol_r6_op && m != 2)
    return fmt::format("m={} must be 2 with technique=jerasure_reed_sol_r6_op", m);
  return {};
}

Matrix coding_matrix(Technique technique, unsigned k, unsigned m) {
  // The first Vandermonde row is all ones: every technique uses this row for a single coding chunk.
  if (m == 1) return vandermonde(k, m);
  if (technique == Technique::cauchy) return cauchy_matrix(k, m);
  return technique == Technique::jerasure_reed_sol_van ? jerasure_vandermonde(k, m) : vandermonde(k, m);
}

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
