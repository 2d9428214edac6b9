// A dense row-major matrix over GF(2^8): a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ec::gf {

class Matrix {
 public:
  Matrix() = default;
  Matrix(unsigned rows, unsigned cols)
      : rows_(rows), cols_(cols), cells_(static_cast<std::size_t>(rows) * cols) {}

  unsigned rows() const { return rows_; }
  unsigned cols() const { return cols_; }
  std::uint8_t& operator()(unsigned r, unsigned c) { return cells_[std::size_t{r} * cols_ + c]; }
  std::uint8_t operator()(unsigned r, unsigned c) const { return cells_[std::size_t{r} * cols_ + c]; }
  std::span<const std::uint8_t> row(unsigned r) const {
    return {cells_.data() + std::size_t{r} * cols_, cols_};
  }
  std::span<std::uint8_t> row(unsigned r) { return {cells_.data() + std::size_t{r} * cols_, cols_}; }
  /// All cells, row by row.
  std::span<const std::uint8_t> cells() const { return cells_; }

  friend bool operator==(const Matrix&, const Matrix&) = default;

 private:
  unsigned rows_ = 0;
  unsigned cols_ = 0;
  std::vector<std::uint8_t> cells_;
};

}  // namespace ec::gf
