#include "kernels/x86/coefficients.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "gf/gf256.hpp"

namespace ec::kernels::x86 {
namespace {

/// One expanded coefficient for each element of the field.
template <std::size_t bytes>
using Expanded = std::array<std::array<std::uint8_t, bytes>, 256>;

/// The bit matrix of multiplication by c in the form of GF2P8AFFINEQB: byte 7 - i holds, in bit j, whether
/// bit j of the factor enters bit i of the product.
consteval Expanded<affine_bytes> make_affine() {
  Expanded<affine_bytes> all{};
  for (unsigned c = 0; c < 256; ++c)
    for (unsigned j = 0; j < 8; ++j) {
      const unsigned column = gf::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(1u << j));
      for (unsigned i = 0; i < 8; ++i)
        all[c][7 - i] = static_cast<std::uint8_t>(all[c][7 - i] | (column >> i & 1u) << j);
    }
  return all;
}

/// c times 0, 1, .., 15, then c times 0, 16, .., 240.
consteval Expanded<shuffle_bytes> make_shuffle() {
  Expanded<shuffle_bytes> all{};
  for (unsigned c = 0; c < 256; ++c)
    for (unsigned nibble = 0; nibble < 16; ++nibble) {
      all[c][nibble] = gf::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(nibble));
      all[c][16 + nibble] = gf::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(nibble << 4));
    }
  return all;
}

/// A matrix with fewer cells is not looked at.
constexpr std::size_t least_transformed_cells = 96;
/// With fewer cells the transform's sums must stay in registers.
constexpr std::size_t least_cells_in_memory = 256;
/// The cost of a source of the transform beside its products, in products: its sums are read and written.
/// Measured on an Intel Xeon with GFNI, 4 KiB that a cache holds, sums in memory: 1.09 times the speed of
/// products by the matrix at 32+8 (1.16 by this number), and, solved by a matrix, 1.21 where 16 are lost of
/// 64+16 (1.45), 0.84 where 8 are lost of 32+8 (0.94).
constexpr unsigned source_overhead = 4;
/// In chunks of 1 to 64 KiB that a cache holds: 1.1 to 1.5 times at 16+7 (1.12 by this number), 1.2 to 1.3 at
/// 16+8 (1.28), 1.3 to 1.7 at 24+8 (1.33); 0.9 to 1.0 at 16+6 (0.96). Four points in registers, for up to
/// four rows, reach 0.7 to 1.0 from 8+4 to 20+4, so only blocks of eight have sums in registers.
/// 24+8 with 8 lost by a solution 0.95 to 1.23 on a Zen 4 (1.17). With sources beside the blocks the rows are
/// written and read once more: 25+7 0.7 to 1.2.
constexpr unsigned source_overhead_in_registers = 3;

constexpr Expanded<affine_bytes> affine = make_affine();
constexpr Expanded<shuffle_bytes> shuffle = make_shuffle();

bool all_ones(std::span<const std::uint8_t> row) {
  return std::ranges::all_of(row, [](auto c) { return c == 1; });
}

/// See Coefficients::folded.
unsigned folded_sources(const gf::Matrix& matrix) {
  if (matrix.rows() < 2 || matrix.rows() > max_group_rows) return 0;
  const auto sum = [&](unsigned column) {
    unsigned all = 0;
    for (unsigned r = 0; r < matrix.rows(); ++r) all ^= matrix(r, column);
    return all;
  };
  unsigned ones = 0;
  while (ones < matrix.cols() && sum(ones) == 1) ++ones;
  if (ones == 0) return 0;
  for (unsigned c = ones; c < matrix.cols(); ++c)
    if (sum(c) != 0) return 0;
  return ones;
}

/// The table's entries for the matrix with rows 0 and `first` exchanged.
template <std::size_t bytes>
void lay_out(const gf::Matrix& matrix, unsigned first, const Expanded<bytes>& table, std::uint8_t* to) {
  const auto row_of = [&](unsigned r) { return r == 0 ? first : r == first ? 0 : r; };
  for (unsigned pass = 0; pass < pass_count(matrix.rows()); ++pass) {
    const unsigned begin = pass_begin(matrix.rows(), pass);
    const unsigned rows = pass_begin(matrix.rows(), pass + 1) - begin;
    for (unsigned g = 0; g < group_count(rows); ++g) {
      const unsigned group = group_begin(rows, g);
      const unsigned group_rows = group_begin(rows, g + 1) - group;
      for (unsigned r = 0; r < group_rows; ++r) {
        std::uint8_t* at = to + r * bytes;
        for (const std::uint8_t c : matrix.row(row_of(begin + group + r))) {
          std::memcpy(at, table[c].data(), bytes);
          at += group_rows * bytes;
        }
      }
      to += std::size_t{group_rows} * matrix.cols() * bytes;
    }
  }
}

static_assert(gf::CauchyStages::max_rows <= max_pass_rows && gf::CauchyStages::none == transform_none);

bool in_registers_alone(const gf::CauchyStages& s) {
  return s.log_points == transform_register_log_points && s.row_blocks() == 1;
}

/// The rows are the sources of a solution. A solution has not been slower than products by `then`.
std::size_t solution_overhead(const gf::CauchyStages& s) {
  if (!s.solution.exists()) return 0;
  return std::min(source_overhead * s.solution.row_factors.size(),
                  s.then.cells().size() - s.solution.products(s.log_points));
}

/// The program's transform, if it is less work than products by the matrix.
std::unique_ptr<const TransformTables> transform_of(const Program& program) {
  // The transform's kernel is for 512-bit registers alone.
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("gfni")) return nullptr;
  const gf::Matrix& matrix = program.matrix();
  const std::size_t cells = matrix.cells().size();
  if (matrix.rows() > max_pass_rows || cells < least_transformed_cells) return nullptr;
  auto stages = gf::cauchy_stages(matrix, program.chunks().sources, program.chunks().targets);
  if (!stages || stages->row_blocks() * stages->points() > max_transform_sums) return nullptr;
  const bool in_registers = in_registers_alone(*stages);
  if (cells < least_cells_in_memory && !in_registers) return nullptr;
  const unsigned overhead = in_registers ? source_overhead_in_registers : source_overhead;
  const std::size_t rows_in_memory = stages->rest.empty() ? 0 : 2 * stages->rows();
  const std::size_t cost =
      stages->products() + overhead * stages->lanes.size() + rows_in_memory + solution_overhead(*stages);
  if (cost + cost / 8 > cells) return nullptr;
  return std::make_unique<const TransformTables>(std::move(*stages));
}

}  // namespace

TransformTables::TransformTables(gf::CauchyStages from) : stages(std::move(from)) {
  if (stages.solution.exists()) stages.then = {};
  gf::CauchySolution& solution = stages.solution;
  std::size_t factors = stages.before.cells().size() + stages.then.cells().size();
  for (const auto* list : {&stages.inverse, &stages.scales, &stages.forward, &solution.row_factors,
                           &solution.inverse, &solution.scales, &solution.forward, &solution.target_factors})
    factors += list->size();
  bytes.resize(factors * affine_bytes);
  std::uint8_t* to = bytes.data();
  const auto expand = [&](const std::vector<std::uint8_t>& list) {
    const std::uint8_t* begin = to;
    for (const std::uint8_t factor : list) to = std::ranges::copy(affine[factor], to).out;
    return begin;
  };
  const auto lay_out_dense = [&](const gf::Matrix& matrix) {
    const std::uint8_t* begin = to;
    lay_out(matrix, 0, affine, to);
    to += matrix.cells().size() * affine_bytes;
    return begin;
  };
  static_cast<Transform&>(*this) = {
      .log_points = stages.log_points,
      .blocks = stages.source_blocks(),
      .row_blocks = stages.row_blocks(),
      .rows = stages.rows(),
      .lines = stages.row_blocks() * stages.points() +
               (stages.rest.empty() && stages.then.rows() == 0 ? 0 : stages.rows()),
      .lanes = stages.lanes.data(),
      .inverse = expand(stages.inverse),
      .scales = expand(stages.scales),
      .forward = expand(stages.forward),
      .places = stages.places.data(),
      .added = stages.added.data(),
      .rest = stages.rest.data(),
      .rest_count = static_cast<unsigned>(stages.rest.size()),
      .before = lay_out_dense(stages.before),
      .then = stages.then.rows() == 0 ? nullptr : lay_out_dense(stages.then),
      .solution = {.blocks = static_cast<unsigned>(solution.places.size()) >> stages.log_points,
                   .row_factors = expand(solution.row_factors),
                   .inverse = expand(solution.inverse),
                   .scales = expand(solution.scales),
                   .forward = expand(solution.forward),
                   .target_factors = expand(solution.target_factors),
                   .places = solution.places.data()}};
}

Coefficients::Coefficients(const Program& program, CoefficientForm form)
    : bytes(program.matrix().cells().size() * coefficient_bytes(form)) {
  const gf::Matrix& matrix = program.matrix();
  while (first < matrix.rows() && !all_ones(matrix.row(first))) ++first;
  first_is_xor = first < matrix.rows();
  if (!first_is_xor) {
    first = 0;
    folded = folded_sources(matrix);
  }
  form == CoefficientForm::affine ? lay_out(matrix, first, affine, bytes.data())
                                  : lay_out(matrix, first, shuffle, bytes.data());
  if (form == CoefficientForm::affine) transform = transform_of(program);
}

}  // namespace ec::kernels::x86
