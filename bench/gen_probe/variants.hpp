// What the probe runs: every kernel, shape and setting worth a number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gf/matrix.hpp"

namespace probe {

/// One launch: some rows of the code by one kernel.
struct Pass {
  std::string source;  ///< CUDA C++
  std::string entry;
  unsigned first_row = 0, rows = 0;
};

enum class Extra : std::uint8_t { generated, fragments, tables, table_parameters, none };

/// A kernel with its settings, for one shape.
struct Variant {
  std::string kernel, settings;
  unsigned k = 0, m = 0;
  std::vector<Pass> passes;
  Extra extra = Extra::none;
  unsigned threads = 256;
  unsigned warp_tile = 1024;  ///< bytes of a chunk that a warp does at a time
  unsigned waves = 0;         ///< 0: a warp per tile; n: n times as many blocks as fit on the chip
  unsigned grid_y = 1;
  bool verified = true;  ///< whether the result is the code (the XOR kernel's is not)
};

/// The code every shape is measured with: cauchy, whose coefficients are the worse case (no row of ones).
ec::gf::Matrix coding(unsigned k, unsigned m);

std::vector<Variant> variants();

/// Bits of the code as fragments of the tensor-core kernel, and tables of the table kernel.
std::vector<std::uint32_t> fragments(const ec::gf::Matrix& matrix);
std::vector<std::uint32_t> tables(const ec::gf::Matrix& matrix);

}  // namespace probe
