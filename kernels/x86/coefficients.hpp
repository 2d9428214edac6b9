// A matrix as the x86 kernels read it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gf/cauchy_stages.hpp"
#include "kernels/program.hpp"
#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// affine: for GFNI, affine_bytes a coefficient. shuffle: for PSHUFB, shuffle_bytes a coefficient.
enum class Form { affine, shuffle };

constexpr Form form_of(Isa isa) {
  return isa == Isa::gfni512 || isa == Isa::gfni256 ? Form::affine : Form::shuffle;
}

constexpr std::size_t coefficient_bytes(Form form) {
  return form == Form::affine ? affine_bytes : shuffle_bytes;
}

/// A transform in place of the matrix, and the memory it points to. Form::affine alone.
class TransformTables {
 public:
  /// Throws std::bad_alloc.
  explicit TransformTables(gf::CauchyStages stages);
  const Transform& get() const { return transform_; }

 private:
  gf::CauchyStages stages_;
  std::vector<std::uint8_t> bytes_;
  Transform transform_{};
};

/// What of a matrix the kernels make use of beside its coefficients.
struct Pattern {
  /// The kernels' first row makes target `first`, and their row `first` target 0; every other row makes the
  /// target of its own number.
  unsigned first = 0;
  bool first_is_xor = false;  ///< every coefficient of the kernels' first row is one
  /// All rows together are the sum of that many first sources, as where all lost chunks are data and one of
  /// the sources is the sum of the data: what a row less of products makes. 0: not so, or of no use.
  unsigned folded = 0;
};

/// A matrix of so many rows and columns, row by row in `cells`, laid out for the kernels: writes
/// cells.size() * coefficient_bytes(form) bytes.
Pattern expand(std::span<const std::uint8_t> cells, unsigned rows, Form form, std::uint8_t* to) noexcept;

/// Immutable once made.
struct Coefficients final : Expansion, Pattern {
  /// Throws std::bad_alloc.
  Coefficients(const Program& program, Form form);

  std::unique_ptr<const TransformTables> transform;  ///< null: products by the matrix are not more work
  std::vector<std::uint8_t> bytes;  ///< pass by pass, each laid out as Call::coefficients asks
};

/// Rows beyond max_pass_rows are coded in several passes, as equal as can be.
constexpr unsigned pass_count(unsigned rows) { return (rows + max_pass_rows - 1) / max_pass_rows; }
constexpr unsigned pass_begin(unsigned rows, unsigned pass) {
  return part_begin(rows, pass_count(rows), pass);
}

/// The program's coefficients in that form, made on first use; null if memory ran out.
const Coefficients* coefficients_of(const Program& program, Form form) noexcept;

}  // namespace ec::kernels::x86
