// A matrix as the x86 kernels read it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gf/cauchy_stages.hpp"
#include "kernels/program.hpp"
#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// affine: for GFNI, affine_bytes a coefficient. shuffle: for PSHUFB, shuffle_bytes a coefficient.
enum class CoefficientForm { affine, shuffle };

constexpr CoefficientForm form_of(Isa isa) {
  return isa == Isa::gfni512 || isa == Isa::gfni256 ? CoefficientForm::affine : CoefficientForm::shuffle;
}

constexpr std::size_t coefficient_bytes(CoefficientForm form) {
  return form == CoefficientForm::affine ? affine_bytes : shuffle_bytes;
}

/// A transform in place of the matrix, and its memory. CoefficientForm::affine alone.
struct TransformTables final : Transform {
  /// Throws std::bad_alloc.
  explicit TransformTables(gf::CauchyStages stages);

  gf::CauchyStages stages;
  std::vector<std::uint8_t> bytes;
};

/// Immutable once made.
struct Coefficients final : Expansion {
  /// Throws std::bad_alloc.
  Coefficients(const Program& program, CoefficientForm form);

  /// The kernels' first row makes target `first`, and their row `first` target 0; every other row makes the
  /// target of its own number.
  unsigned first = 0;
  bool first_is_xor = false;  ///< every coefficient of the kernels' first row is one
  /// All rows together are the sum of so many first sources, for example where all lost chunks are data and a
  /// source is the sum of the data: one row needs no products then (AVX2: decode 3 to 39 % faster). 0: no.
  unsigned folded = 0;
  std::unique_ptr<const TransformTables> transform;  ///< null: products by the matrix are not more work
  std::vector<std::uint8_t> bytes;  ///< pass by pass, each laid out as ProductCall::coefficients asks
};

/// Rows beyond max_pass_rows are coded in several passes, as equal as can be.
constexpr unsigned pass_count(unsigned rows) { return (rows + max_pass_rows - 1) / max_pass_rows; }
constexpr unsigned pass_begin(unsigned rows, unsigned pass) {
  return part_begin(rows, pass_count(rows), pass);
}

/// The program's coefficients in this form, made on first use; null if memory ran out.
inline const Coefficients* coefficients_of(const Program& program, CoefficientForm form) noexcept {
  const auto slot = form == CoefficientForm::affine ? ExpansionSlot::x86_affine : ExpansionSlot::x86_shuffle;
  return static_cast<const Coefficients*>(
      program.expansion(slot, [&] { return std::make_unique<Coefficients>(program, form); }));
}

}  // namespace ec::kernels::x86
