// GFNI on 256-bit registers, for CPUs that have it without AVX-512.
#include <immintrin.h>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {
namespace {

#include "kernels/x86/coder.inl"
#include "kernels/x86/vector256.inl"

struct Gfni256 : Vector256 {
  struct Prepared {
    __m256i value;
  };
  static constexpr size_t coefficient_bytes = affine_bytes;
  static constexpr bool pairs = false;
  /// At most four, as many as the sixteen registers allow.
  static constexpr unsigned vectors(unsigned rows) { return rows <= 2 ? 4 : rows == 3 ? 3 : 2; }
  static constexpr unsigned short_vectors = 0;

  static Prepared prepare(__m256i v) { return {v}; }
  static __m256i factor(const uint8_t* at) {
    long long matrix;
    __builtin_memcpy(&matrix, at, sizeof matrix);
    return _mm256_set1_epi64x(matrix);
  }
  static __m256i multiply_add(__m256i sum, __m256i factor, Prepared p) {
    return add(sum, _mm256_gf2p8affine_epi64_epi8(p.value, factor, 0));
  }
};

}  // namespace

Isa run_gfni256(const ProductCall& call) noexcept {
#if !defined(__GFNI__) || !defined(__AVX2__) || defined(__AVX512F__)
#error to be built with -mgfni -mavx2 and without AVX-512
#endif
  Coder<Gfni256>(call).run();
  return Isa::gfni256;
}

}  // namespace ec::kernels::x86
