// AVX-512 without GFNI: the products of both nibbles are looked up by byte shuffles.
#include <immintrin.h>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {
namespace {

#include "kernels/x86/coder.inl"
#include "kernels/x86/vector512.inl"

struct Avx512 : Vector512 {
  struct Prepared {
    __m512i value, low, high;
  };
  struct Factor {
    __m512i low, high;
  };
  static constexpr size_t coefficient_bytes = shuffle_bytes;
  static constexpr bool pairs = false;
  static constexpr unsigned vectors(unsigned) { return 2; }
  static constexpr unsigned short_vectors = 0;

  static Prepared prepare(__m512i v) {
    const __m512i nibble = _mm512_set1_epi8(0x0f);
    return {v, _mm512_and_si512(v, nibble), _mm512_and_si512(_mm512_srli_epi64(v, 4), nibble)};
  }
  static __m512i table(const uint8_t* at) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Factor factor(const uint8_t* at) { return {table(at), table(at + 16)}; }
  static __m512i multiply_add(__m512i sum, Factor f, Prepared p) {
    return add(sum, _mm512_shuffle_epi8(f.low, p.low), _mm512_shuffle_epi8(f.high, p.high));
  }
};

}  // namespace

Isa run_avx512(const ProductCall& call) noexcept {
#if !defined(__AVX512BW__) || defined(__GFNI__)
#error to be built with -mavx512bw and without GFNI
#endif
  Coder<Avx512>(call).run();
  return Isa::avx512;
}

}  // namespace ec::kernels::x86
