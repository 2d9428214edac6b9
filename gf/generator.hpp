// Systematic generator matrices: which techniques and shapes there are, and their coding matrices.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gf/matrix.hpp"

namespace ec::gf {

/// Names are Ceph's: the values of the profile key `technique` of its isa plugin.
enum class Technique { reed_sol_van, cauchy };

inline constexpr std::string_view technique_names = "reed_sol_van, cauchy";
std::optional<Technique> parse_technique(std::string_view name);
std::string_view name(Technique technique);

/// k + m never exceeds this: the field has 256 elements and ISA-L counts chunks in a byte.
inline constexpr unsigned max_chunks = 255;

/// Empty if k data and m coding chunks can be coded with any m of them lost (the code is MDS),
/// otherwise a sentence that names the offending parameter, its value and what is allowed.
/// The safe shapes of the Vandermonde are those ISA-L documents for gf_gen_rs_matrix;
/// a Cauchy matrix is always MDS.
std::string shape_error(Technique technique, unsigned k, unsigned m);

/// The coding matrix (m x k): the lower rows of ISA-L's gf_gen_rs_matrix or gf_gen_cauchy1_matrix.
/// m = 1 is all ones for either technique, as in Ceph's isa plugin.
/// The shape must be one that shape_error accepts.
Matrix coding_matrix(Technique technique, unsigned k, unsigned m);

}  // namespace ec::gf
