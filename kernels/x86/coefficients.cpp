#include "kernels/x86/coefficients.hpp"

#include <algorithm>
#include <new>
#include <numeric>

#include "gf/gf256.hpp"

namespace ec::kernels::x86 {
namespace {

/// The bit matrix of multiplication by c as GF2P8AFFINEQB takes it: byte 7 - i holds, in bit j, whether bit j
/// of the factor enters bit i of the product.
void append_affine(std::uint8_t c, std::vector<std::uint8_t>& out) {
  for (int i = 7; i >= 0; --i) {
    unsigned row = 0;
    for (unsigned j = 0; j < 8; ++j) row |= (gf::mul(c, static_cast<std::uint8_t>(1u << j)) >> i & 1u) << j;
    out.push_back(static_cast<std::uint8_t>(row));
  }
}

/// c times 0, 1, .., 15, then c times 0, 16, .., 240.
void append_shuffle(std::uint8_t c, std::vector<std::uint8_t>& out) {
  for (unsigned shift : {0u, 4u})
    for (unsigned nibble = 0; nibble < 16; ++nibble)
      out.push_back(gf::mul(c, static_cast<std::uint8_t>(nibble << shift)));
}

bool all_ones(std::span<const std::uint8_t> row) {
  return std::ranges::all_of(row, [](auto c) { return c == 1; });
}

}  // namespace

Coefficients::Coefficients(const gf::Matrix& matrix, Form form) : order(matrix.rows()) {
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  const auto ones = std::ranges::find_if(order, [&](auto r) { return all_ones(matrix.row(r)); });
  first_is_xor = ones != order.end();
  if (first_is_xor) std::iter_swap(order.begin(), ones);

  bytes.reserve(matrix.cells().size() * coefficient_bytes(form));
  for (unsigned pass = 0; pass < pass_count(matrix.rows()); ++pass) {
    const unsigned first = pass_begin(matrix.rows(), pass);
    const unsigned rows = pass_begin(matrix.rows(), pass + 1) - first;
    for (unsigned g = 0; g < group_count(rows); ++g)
      for (unsigned s = 0; s < matrix.cols(); ++s)
        for (unsigned r = group_begin(rows, g); r < group_begin(rows, g + 1); ++r) {
          const std::uint8_t c = matrix(order[first + r], s);
          form == Form::affine ? append_affine(c, bytes) : append_shuffle(c, bytes);
        }
  }
}

const Coefficients* coefficients_of(const Program& program, Form form) noexcept {
  const auto slot = form == Form::affine ? ExpansionSlot::x86_affine : ExpansionSlot::x86_shuffle;
  return static_cast<const Coefficients*>(program.expansion(slot, [&]() -> std::unique_ptr<Coefficients> {
    try {
      return std::make_unique<Coefficients>(program.matrix(), form);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }));
}

}  // namespace ec::kernels::x86
