// A Cauchy matrix as a transform: the same bytes for far fewer products, where the code is wide.
//
// Chunk number = point of the field, and the cell of row x and column y is 1 / (x + y), "+" being XOR. Let V
// be the numbers below q, a power of two; s(x), the product of all x + v, v in V, is linear with kernel V,
// and c, the product of V without 0, is its derivative. Through the sources of one aligned block a + V goes
// one polynomial P of degree < q, and by Lagrange the sum of their products in row x is c P(x) / s(x + a). In
// a block p + V of rows this factor is one constant. So each block of sources is interpolated once, in the
// basis of Lin, Chung and Han, which is the same for every block ("Novel Polynomial Basis and Its Application
// to Reed-Solomon Erasure Codes", 2014); its coefficients, times the constant, are added up; and the sums are
// evaluated once for each block of rows. A source costs log2(q) / 2 products and one for each block of rows,
// in place of one for each row.
//
// A decode plan of such a code is solved in two steps: the transform makes the sum of surviving data in each
// coding chunk, lost data as zeros; then a small matrix follows. Where only data is lost, this matrix is the
// inverse of a part of the Cauchy matrix, so a Cauchy matrix too, with a factor for each row and column (S.
// Schechter, "On the inversion of certain matrices", 1959), and a transform makes the product as well.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gf/matrix.hpp"

namespace ec::gf {

/// A transform in place of `then` of the stages: from blocks of rows to blocks of targets.
struct CauchySolution {
  /// By block of rows: the first factor of each of its q values; 0 where there is no row.
  std::vector<std::uint8_t> row_factors;
  /// By block of rows: the q - 1 factors of its inverse transform.
  std::vector<std::uint8_t> inverse;
  /// By block of targets, by block of rows without the first block, whose coefficients are added unscaled.
  std::vector<std::uint8_t> scales;
  /// By block of targets: the q - 1 factors of its transform.
  std::vector<std::uint8_t> forward;
  /// By block of targets: the last factor of each of its q values.
  std::vector<std::uint8_t> target_factors;
  /// By block of targets: the target of each of its q values; none: not wanted.
  std::vector<std::uint8_t> places;

  bool exists() const { return !places.empty(); }
  /// Products of a constant and a byte of a chunk, for one byte of each chunk.
  unsigned products(unsigned log_points) const;
};

/// targets = then . (transform(sources) + before . sources + added sources). A value; plain numbers alone.
struct CauchyStages {
  static constexpr std::uint8_t none = 255;
  /// Rows between the transform and `then`.
  static constexpr unsigned max_rows = 32;

  unsigned log_points = 0;  ///< log2(q), 2 to 4
  /// By block of sources: the q sources, as columns of the matrix; none: zeros.
  std::vector<std::uint8_t> lanes;
  /// By block of sources: the q - 1 factors of its inverse transform, in order of use.
  std::vector<std::uint8_t> inverse;
  /// By block of sources, by block of rows.
  std::vector<std::uint8_t> scales;
  /// By block of rows: the q - 1 factors of its transform, in order of use.
  std::vector<std::uint8_t> forward;
  /// By block of rows: the row of each of its q values; none: not wanted.
  std::vector<std::uint8_t> places;

  /// By row: a source that is added unscaled; none: nothing.
  std::vector<std::uint8_t> added;
  std::vector<std::uint8_t> rest;  ///< sources in no block, by `before`
  Matrix before;                   ///< rows x rest
  Matrix then;                     ///< targets x rows; empty: the rows are the targets
  /// Makes the product with `then` where that takes fewer products, and no block holds rows and targets.
  CauchySolution solution;

  unsigned points() const { return 1u << log_points; }
  unsigned rows() const { return static_cast<unsigned>(added.size()); }
  unsigned source_blocks() const { return static_cast<unsigned>(lanes.size()) >> log_points; }
  unsigned row_blocks() const { return static_cast<unsigned>(places.size()) >> log_points; }
  /// Products of a constant and a byte of a chunk, for one byte of each chunk.
  unsigned products() const;
};

/// The stages with fewest products and sums for a matrix whose columns are k chunks, data chunks first, and
/// whose rows are others of a code that has the Cauchy matrix above, with blocks of at most
/// 2^most_log_points. sources, targets: the numbers of the chunks; both empty: columns are 0..k-1, rows are
/// coding chunks. Nothing if the matrix is another (every cell is checked), or has more than max_rows rows in
/// between. Throws std::bad_alloc.
std::optional<CauchyStages> cauchy_stages(const Matrix& matrix, std::span<const std::uint8_t> sources,
                                          std::span<const std::uint8_t> targets,
                                          unsigned most_log_points = 4);

}  // namespace ec::gf
