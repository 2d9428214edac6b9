// The coding matrices by which other systems make their parity: all over this field, and each another one.
#pragma once

#include <optional>
#include <string_view>

#include "gf/matrix.hpp"

namespace ec::gf {

inline constexpr std::string_view dialect_names =
    "isal_reed_sol_van, isal_cauchy, jerasure_reed_sol_van, jerasure_reed_sol_r6_op, zfec, klauspost, "
    "klauspost_cauchy";

/// The coding matrix (m x k) of the dialect with that name; nothing for another name. k, m >= 1, k + m <=
/// max_chunks. It is what the system would make, whether or not that is MDS, with m = 1 too:
///   isal_reed_sol_van, isal_cauchy   ISA-L's gf_gen_rs_matrix and gf_gen_cauchy1_matrix, the latter that of
///                                    HDFS, Ozone and DAOS as well
///   jerasure_reed_sol_van, _r6_op    those of gf::Technique; the latter has m = 2 alone: else nothing
///   zfec                             Rizzo's code: the polynomial of degree < k through the data, which lie
///                                    at 0, 1, 2, 4, .. (0, then the powers of 2), at the next such points
///   klauspost                        that of Backblaze and klauspost/reedsolomon: the same at 0, 1, 2, 3, ..
///   klauspost_cauchy                 its WithCauchyMatrix, which is isal_cauchy
std::optional<Matrix> dialect_matrix(std::string_view dialect, unsigned k, unsigned m);

}  // namespace ec::gf
