// Coding matrices: of the techniques, with their shapes, and of other systems.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gf/matrix.hpp"

namespace ec::gf {

/// The first two have the names of Ceph's isa plugin. The others are the techniques of its jerasure plugin
/// with words of 8 bits; their names there are reed_sol_van and reed_sol_r6_op.
enum class Technique { reed_sol_van, cauchy, jerasure_reed_sol_van, jerasure_reed_sol_r6_op };

inline constexpr std::array<std::string_view, 4> technique_names{
    "reed_sol_van", "cauchy", "jerasure_reed_sol_van", "jerasure_reed_sol_r6_op"};
std::optional<Technique> parse_technique(std::string_view name);
std::string_view name(Technique technique);

/// k + m never exceeds this: the field has 256 elements and ISA-L counts chunks in a byte.
inline constexpr unsigned max_chunks = 255;

/// Empty if k data and m coding chunks can be coded with any m of them lost (the code is MDS),
/// otherwise a sentence that names the offending parameter, its value and the allowed ones.
/// The safe shapes of reed_sol_van are the ones ISA-L documents for gf_gen_rs_matrix; jerasure_reed_sol_r6_op
/// has m = 2 alone. A Cauchy matrix is always MDS, and jerasure_reed_sol_van is a Cauchy matrix with scaled
/// rows and columns and a point at infinity.
std::string shape_error(Technique technique, unsigned k, unsigned m);

/// The coding matrix (m x k): the lower rows of ISA-L's gf_gen_rs_matrix or gf_gen_cauchy1_matrix, or the
/// matrix of Ceph's jerasure plugin. jerasure_reed_sol_van is a closed form of the elimination that Plank and
/// Ding describe (Note: Correction to the 1997 Tutorial on Reed-Solomon Coding, 2003), rows and columns
/// scaled so that the first of each is all ones. jerasure_reed_sol_r6_op is the P and Q of RAID-6, the first
/// two rows of reed_sol_van. m = 1 is all ones for every technique, as in both plugins. The shape must be one
/// that shape_error accepts.
Matrix coding_matrix(Technique technique, unsigned k, unsigned m);

/// The coding matrices by which systems make their parity: all over this field, and all different, but for
/// the last one, which is isal_cauchy.
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
