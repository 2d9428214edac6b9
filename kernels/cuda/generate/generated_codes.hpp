// The codes of codes.txt, and the machine code of the kernels that the build generated for their encode
// matrices (emit_kernels.cpp writes the table).
#pragma once

#include <span>

#include "gf/generator.hpp"

namespace ec::kernels::cuda {

struct GeneratedCode {
  const char* name;            ///< its kernels are <name>_one and <name>_many
  const unsigned char* image;  ///< a fat binary
  gf::Technique technique;
  unsigned k, m;

  gf::Matrix matrix() const { return gf::coding_matrix(technique, k, m); }
};

std::span<const GeneratedCode> generated_codes() noexcept;

}  // namespace ec::kernels::cuda
