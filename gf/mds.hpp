// Whether a coding matrix gives back the data after every loss of m chunks (is MDS).
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gf/chunk_set.hpp"
#include "gf/gf256.hpp"
#include "gf/matrix.hpp"

namespace ec::gf {

/// The knowledge about a coding matrix (m x k).
struct Mds {
  /// A loss of m chunks after which the data cannot be made; nothing where no such loss was found.
  std::optional<ChunkSet> unsolvable;
  /// Whether every loss was covered; always true with an `unsolvable` loss. Else 20,000 losses were tried.
  bool proven = false;
};

/// Codes of the generalized Reed-Solomon kind are known by their matrix, in any shape: all cells differ from
/// zero, and the matrix of their inverses has rank 2 and no singular 2 x 2 minor (Roth, Seroussi: On
/// generator matrices of MDS codes, 1985). For other codes every loss of m chunks is tried if there are at
/// most 100,000 losses, else a sample, the same in every call. Takes up to some seconds for the widest codes.
Mds check_mds(const Matrix& coding);

/// The chunks that alone may be wrong where the checks have these sums, not all zero: each a multiple of
/// the chunk's column, cell(row, chunk).
ChunkSet single_errors(std::span<const std::uint8_t> sums, unsigned chunks, auto&& cell) {
  const auto at = static_cast<unsigned>(std::ranges::find_if(sums, std::identity()) - sums.begin());
  ChunkSet all;
  for (unsigned c = 0; c < chunks; ++c) {
    const std::uint8_t scale = mul(sums[at], inv(cell(at, c)));
    unsigned r = 0;
    while (scale != 0 && r < sums.size() && mul(cell(r, c), scale) == sums[r]) ++r;
    if (r == sums.size()) all.insert(c);
  }
  return all;
}

/// How many ways there are to choose so many of n.
double choices(unsigned n, unsigned chosen);
/// Steps to the next ascending choice of numbers below n; false after the last.
bool next_choice(std::vector<unsigned>& chosen, unsigned n);

}  // namespace ec::gf
