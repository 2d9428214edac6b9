// A matrix as CUDA C++: its schedule, printed.
#pragma once

#include <string>
#include <string_view>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

/// Text for a .cu file that includes generated.cuh: kernels <name>_one and <name>_many, which code target = M
/// . source for one stripe and for many, as generated_args.hpp says. Equal arguments give equal text.
std::string emit(std::string_view name, const gf::Matrix& matrix);

/// The most rows of a matrix: 8 accumulators a row live in registers, 64 in all.
inline constexpr unsigned most_emitted_rows = 8;

}  // namespace ec::kernels::cuda
