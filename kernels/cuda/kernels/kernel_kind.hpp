// The device kernels there are, for those who want one in particular.
#pragma once

#include <string_view>

namespace ec::kernels::cuda {

/// automatic: the best that fits the job. tile: generalised tiles, takes every job. table: tables of
/// products, for any matrix. bits: tensor cores, for any matrix. generated: compiled for the matrix. The last
/// three code what they can of a job, and tile the rest.
enum class KernelKind { automatic, tile, table, bits, generated };

/// Of the back end that uses this kernel.
constexpr std::string_view backend_name(KernelKind kind) {
  constexpr std::string_view names[] = {"cuda", "cuda-tile", "cuda-table", "cuda-bits", "cuda-generated"};
  return names[static_cast<int>(kind)];
}

}  // namespace ec::kernels::cuda
