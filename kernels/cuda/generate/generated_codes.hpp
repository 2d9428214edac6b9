// The codes of codes.txt: their encode matrices, and the machine code of the kernels that the build generated
// for them (emit_kernels.cpp writes the table).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

struct GeneratedCode {
  const char* name;            ///< its kernels are <name>_one and <name>_many
  const unsigned char* image;  ///< a fat binary
  unsigned k, m;
  std::span<const std::uint8_t> cells;  ///< the coding matrix, row by row

  bool is_of(const gf::Matrix& matrix) const noexcept {
    return matrix.cols() == k && matrix.rows() == m && std::ranges::equal(matrix.cells(), cells);
  }
};

std::span<const GeneratedCode> generated_codes() noexcept;

}  // namespace ec::kernels::cuda
