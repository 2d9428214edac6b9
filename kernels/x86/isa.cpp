// The kernels of one instruction set, EC_ISA. The build compiles this file for each, with flags for it alone.
#include <immintrin.h>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {
namespace {

#include "kernels/x86/coder.inl"
#ifdef __AVX512F__
#include "kernels/x86/vector512.inl"
#else
#include "kernels/x86/vector256.inl"
#endif

#ifdef __GFNI__
constexpr Isa isa = Vectors::width == 64 ? Isa::gfni512 : Isa::gfni256;

/// A product is one affine transform of every byte by the coefficient's bit matrix.
struct Products : Vectors {
  struct Prepared {
    Vector value;
  };
  static constexpr size_t coefficient_bytes = affine_bytes;
  static constexpr bool pairs = isa == Isa::gfni512;
  /// At most four; of 256 bits as many as the sixteen registers allow.
  static constexpr unsigned vectors(unsigned rows) {
    return isa == Isa::gfni512 || rows <= 2 ? 4 : rows == 3 ? 3 : 2;
  }
  static constexpr unsigned short_vectors = isa == Isa::gfni512 ? 2 : 0;

  static Prepared prepare(Vector v) { return {v}; }
  static Vector factor(const uint8_t* at) {
    long long matrix;
    __builtin_memcpy(&matrix, at, sizeof matrix);
    Vector factor = everywhere(matrix);
#ifdef __clang__
    // Clang 14 encodes an affine transform that broadcasts its matrix from memory with an eighth of the
    // displacement that the processor expects. A matrix in a register is always right.
    asm("" : "+v"(factor));
#endif
    return factor;
  }
  static Vector product(Vector factor, Prepared p) { return affine(p.value, factor); }
  static Vector multiply_add(Vector sum, Vector factor, Prepared p) { return add(sum, product(factor, p)); }
};
#else
constexpr Isa isa = Vectors::width == 64 ? Isa::avx512 : Isa::avx2;

/// The products of both nibbles are looked up by byte shuffles.
struct Products : Vectors {
  struct Prepared {
    Vector value, low, high;
  };
  struct Factor {
    Vector low, high;
  };
  static constexpr size_t coefficient_bytes = shuffle_bytes;
  static constexpr bool pairs = false;
  static constexpr unsigned vectors(unsigned) { return 2; }
  static constexpr unsigned short_vectors = 0;

  static Prepared prepare(Vector v) {
    const Vector nibble = everywhere(0x0f0f0f0f0f0f0f0f);
    return {v, v & nibble, shifted_right_by_4(v) & nibble};
  }
  static Factor factor(const uint8_t* at) { return {table(at), table(at + 16)}; }
  static Vector multiply_add(Vector sum, Factor f, Prepared p) {
    return add(sum, look_up(f.low, p.low), look_up(f.high, p.high));
  }
};
#endif

static_assert(isa == Isa::EC_ISA, "the flags are for another instruction set");

}  // namespace

template <>
Isa run<isa>(const ProductCall& call) noexcept {
  run_call<Products>(call);
  return isa;
}

#if defined(__GFNI__) && defined(__AVX512F__)
namespace {
#include "kernels/x86/transform.inl"
}  // namespace

Isa transform_gfni512(const TransformCall& call) noexcept {
  run_transform<Products>(call);
  return isa;
}
#endif

}  // namespace ec::kernels::x86
