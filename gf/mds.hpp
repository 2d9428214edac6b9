// Whether a coding matrix gives back the data after every loss of m chunks (is MDS).
#pragma once

#include <optional>
#include <vector>

#include "gf/chunk_set.hpp"
#include "gf/matrix.hpp"

namespace ec::gf {

/// What is known of a coding matrix (m x k).
struct Mds {
  /// A loss of m chunks after which the data cannot be made; where none was found, nothing.
  std::optional<ChunkSet> unsolvable;
  /// Whether every loss was covered; always so where one is named. Else a sample of 20,000 was looked at.
  bool proven = false;
};

/// Codes of the generalized Reed-Solomon kind are known by their matrix, in any shape: all cells differ from
/// zero, and the matrix of their inverses has rank 2 and no singular 2 x 2 minor (Roth, Seroussi: On
/// generator matrices of MDS codes, 1985). Of other codes every loss of m chunks is tried where there are at
/// most 100,000, else the sample, the same in every call. Takes at most some tenths of a second.
Mds check_mds(const Matrix& coding);

/// Steps to the next ascending choice of numbers below n; false after the last.
bool next_choice(std::vector<unsigned>& chosen, unsigned n);

}  // namespace ec::gf
