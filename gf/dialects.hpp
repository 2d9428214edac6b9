// The coding matrices by which other systems make their parity: all over this field, and all different.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "gf/matrix.hpp"

namespace ec::gf {

/// The last one has the matrix of isal_cauchy.
inline constexpr auto dialect_names =
    std::to_array<std::string_view>({"isal_reed_sol_van", "isal_cauchy", "jerasure_reed_sol_van",
                                     "jerasure_reed_sol_r6_op", "zfec", "klauspost", "klauspost_cauchy"});

/// The coding matrix (m x k) of the dialect with this name; nothing for another name. k, m >= 1, k + m <=
/// max_chunks. The matrix is the system's own, whether or not that matrix is MDS, with m = 1 too:
///   isal_reed_sol_van, isal_cauchy   ISA-L's gf_gen_rs_matrix and gf_gen_cauchy1_matrix; the latter also
///                                    serves HDFS, Ozone and DAOS
///   jerasure_reed_sol_van, _r6_op    the matrices of gf::Technique; the latter has m = 2 alone: else nothing
///   zfec                             Rizzo's code: the polynomial of degree < k through the data, which lie
///                                    at 0, 1, 2, 4, .. (0, then the powers of 2), at the next such points
///   klauspost                        Backblaze and klauspost/reedsolomon: the same at 0, 1, 2, 3, ..
///   klauspost_cauchy                 WithCauchyMatrix of klauspost/reedsolomon, which is isal_cauchy
std::optional<Matrix> dialect_matrix(std::string_view dialect, unsigned k, unsigned m);

}  // namespace ec::gf
