// Matrices that schedules and programs are tested with.
#pragma once

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "tests/support/random_bytes.hpp"

namespace ec::test {

/// The coding matrix of a random shape that the technique allows, k <= 24, m <= 8.
inline gf::Matrix random_coding_matrix(Random& random) {
  const gf::Technique technique = random.below(2) == 0 ? gf::Technique::reed_sol_van : gf::Technique::cauchy;
  for (;;) {
    const unsigned k = 2 + random.below(23), m = 1 + random.below(8);
    if (gf::shape_error(technique, k, m).empty()) return gf::coding_matrix(technique, k, m);
  }
}

/// The matrix of a plan for as many lost chunks as the code allows, or fewer, of data and coding alike.
inline gf::Matrix random_decode_matrix(Random& random) {
  const gf::Matrix coding = random_coding_matrix(random);
  const unsigned chunks = coding.cols() + coding.rows();
  gf::ErasureSignature signature{gf::ChunkSet::first(chunks), {}};
  for (unsigned lost = 1 + random.below(coding.rows()); lost > 0; --lost) {
    const unsigned chunk = random.below(chunks);
    signature.available.erase(chunk);
    signature.wanted.insert(chunk);
  }
  return gf::make_decode_plan(coding, signature).value().matrix;
}

/// Any cells, among them rows and columns of zeros, rows of ones and rows that occur twice.
inline gf::Matrix random_matrix(Random& random) {
  gf::Matrix matrix(1 + random.below(8), 1 + random.below(24));
  const auto fill_row = [&](unsigned row, auto cell) {
    for (unsigned c = 0; c < matrix.cols(); ++c) matrix(row, c) = cell(c);
  };
  for (unsigned r = 0; r < matrix.rows(); ++r) {
    const unsigned kind = random.below(8);
    if (kind == 0) fill_row(r, [](unsigned) { return std::uint8_t{0}; });
    if (kind == 1) fill_row(r, [](unsigned) { return std::uint8_t{1}; });
    if (kind == 2 && r > 0) fill_row(r, [&](unsigned c) { return matrix(r - 1, c); });
    if (kind > 2 || (kind == 2 && r == 0))
      fill_row(r, [&](unsigned) { return static_cast<std::uint8_t>(random.next()); });
  }
  if (random.below(4) == 0)
    for (unsigned r = 0, c = random.below(matrix.cols()); r < matrix.rows(); ++r) matrix(r, c) = 0;
  return matrix;
}

}  // namespace ec::test
