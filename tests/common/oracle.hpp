// A slow second opinion on everything the code computes, written from the definitions. It shares no code with
// gf/ or kernels/: an error there cannot also be here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ec::test::oracle {

using Bytes = std::vector<std::uint8_t>;
/// A matrix as a list of equally long rows.
using Rows = std::vector<Bytes>;

/// Carry-less product reduced by x^8 + x^4 + x^3 + x^2 + 1.
std::uint8_t mul(std::uint8_t a, std::uint8_t b);
/// The x with a . x = 1, by search; a must not be zero.
std::uint8_t inverse(std::uint8_t a);

/// The m x k coding matrix of technique `reed_sol_van` (cell = (2^r)^c), `cauchy` (cell = 1 / ((k + r) ^ c)),
/// `jerasure_reed_sol_r6_op` (a row of ones, and 2^c) or `jerasure_reed_sol_van`, all ones when m = 1. The
/// last is by elimination: the extended Vandermonde matrix of k+m rows, whose first is 1, 0, .. and whose
/// last is .., 0, 1, made systematic by operations on its columns; then columns and rows scaled to begin
/// with 1.
Rows coding_matrix(std::string_view technique, unsigned k, unsigned m);
/// The (k + m) x k generator: the identity above a coding matrix.
Rows generator(const Rows& coding);
Rows generator(std::string_view technique, unsigned k, unsigned m);

/// Gauss-Jordan; nothing if singular.
std::optional<Rows> invert(Rows a);
/// Whether no square submatrix is singular; exponential, for matrices with few rows or few columns.
bool every_minor_invertible(const Rows& coding);

/// The matrix that makes chunks `targets` out of k chunks `sources` (k x k inversion of the generator's
/// rows). Nothing if those k chunks do not determine the data.
std::optional<Rows> recovery_matrix(const Rows& generator, const std::vector<unsigned>& sources,
                                    const std::vector<unsigned>& targets);

/// Chunk i of the result is the sum over j of matrix[i][j] . chunks[j]; chunks are equally long.
std::vector<Bytes> apply(const Rows& matrix, const std::vector<Bytes>& chunks);

}  // namespace ec::test::oracle

namespace ec::test {

struct CodeShape {
  unsigned k;
  unsigned m;
};

/// Every shape with 2 <= k and k + m <= most that the technique allows; the Vandermonde limits are ISA-L's,
/// stated here once more so that the code under test cannot widen them unseen.
inline std::vector<CodeShape> small_shapes(std::string_view technique, unsigned most) {
  std::vector<CodeShape> shapes;
  for (unsigned k = 2; k < most; ++k)
    for (unsigned m = 1; k + m <= most; ++m)
      if (technique == "cauchy" || m <= 3 || k <= 3 || (k == 4 && m <= 21) || (k == 5 && m <= 5) ||
          (m == 4 && k <= 21))
        shapes.push_back({k, m});
  return shapes;
}

}  // namespace ec::test
