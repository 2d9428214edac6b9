// AVX2: the products of both nibbles are looked up by byte shuffles.
#include <immintrin.h>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {
namespace {

#include "kernels/x86/coder.inl"
#include "kernels/x86/vector256.inl"

struct Avx2 : Vector256 {
  struct Prepared {
    __m256i value, low, high;
  };
  struct Factor {
    __m256i low, high;
  };
  static constexpr size_t coefficient_bytes = shuffle_bytes;
  static constexpr bool pairs = false;
  static constexpr unsigned vectors(unsigned) { return 2; }
  static constexpr unsigned short_vectors = 0;

  static Prepared prepare(__m256i v) {
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    return {v, _mm256_and_si256(v, nibble), _mm256_and_si256(_mm256_srli_epi64(v, 4), nibble)};
  }
  static __m256i table(const uint8_t* at) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Factor factor(const uint8_t* at) { return {table(at), table(at + 16)}; }
  static __m256i multiply_add(__m256i sum, Factor f, Prepared p) {
    return add(sum, _mm256_shuffle_epi8(f.low, p.low), _mm256_shuffle_epi8(f.high, p.high));
  }
};

}  // namespace

Isa run_avx2(const ProductCall& call) noexcept {
#if !defined(__AVX2__) || defined(__AVX512F__) || defined(__GFNI__)
#error to be built with -mavx2 and nothing above it
#endif
  Coder<Avx2>(call).run();
  return Isa::avx2;
}

}  // namespace ec::kernels::x86
