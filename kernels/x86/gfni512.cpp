// GFNI on 512-bit registers: a product is one affine transform of every byte by the coefficient's bit matrix.
#include <immintrin.h>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {
namespace {

#include "kernels/x86/coder.inl"
#include "kernels/x86/transform.inl"
#include "kernels/x86/vector512.inl"

struct Gfni512 : Vector512 {
  struct Prepared {
    __m512i value;
  };
  static constexpr size_t coefficient_bytes = affine_bytes;
  static constexpr bool pairs = true;
  static constexpr unsigned vectors(unsigned) { return 4; }
  static constexpr unsigned short_vectors = 2;

  static Prepared prepare(__m512i v) { return {v}; }
  static __m512i factor(const uint8_t* at) {
    long long matrix;
    __builtin_memcpy(&matrix, at, sizeof matrix);
    __m512i everywhere = _mm512_set1_epi64(matrix);
#ifdef __clang__
    // Clang 14 encodes an affine transform that broadcasts its matrix from memory with an eighth of the
    // displacement that the processor expects. A matrix in a register is always right.
    asm("" : "+v"(everywhere));
#endif
    return everywhere;
  }
  static __m512i product(__m512i factor, Prepared p) {
    return _mm512_gf2p8affine_epi64_epi8(p.value, factor, 0);
  }
  static __m512i multiply_add(__m512i sum, __m512i factor, Prepared p) {
    return add(sum, product(factor, p));
  }
};

}  // namespace

Isa run_gfni512(const ProductCall& call) noexcept {
#if !defined(__GFNI__) || !defined(__AVX512BW__)
#error built without -mgfni -mavx512bw
#endif
  Coder<Gfni512>(call).run();
  return Isa::gfni512;
}

Isa transform_gfni512(const TransformCall& call) noexcept {
  run_transform<Gfni512>(call);
  return Isa::gfni512;
}

}  // namespace ec::kernels::x86
