// Systematic generator matrices: the techniques and shapes, and their coding matrices.
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

/// ISA-L's gf_gen_cauchy1_matrix (m x k), with m = 1 too: cell (r, c) is 1 / ((k + r) + c).
Matrix cauchy_matrix(unsigned k, unsigned m);

}  // namespace ec::gf
