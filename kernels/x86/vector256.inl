// Shared by both 256-bit instruction sets. Included inside an unnamed namespace.

struct Vectors {
  using Vector = __m256i;
  static constexpr size_t width = 32;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
  static void keep(Vector&) {}
  static void store(uint8_t* at, Vector v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), v); }
  static void stream(uint8_t* at, Vector v) { _mm256_stream_si256(reinterpret_cast<__m256i*>(at), v); }
  static Vector add(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  static Vector add(Vector a, Vector b, Vector c) { return add(a, add(b, c)); }

  static Vector everywhere(long long x) { return _mm256_set1_epi64x(x); }
  static Vector shifted_right_by_4(Vector v) { return _mm256_srli_epi64(v, 4); }
  static Vector table(const uint8_t* at) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Vector look_up(Vector table, Vector at) { return _mm256_shuffle_epi8(table, at); }
#ifdef __GFNI__
  static Vector affine(Vector v, Vector matrix) { return _mm256_gf2p8affine_epi64_epi8(v, matrix, 0); }
#endif

  /// A vector whose first lanes are coded already. Where it is added to the targets, sources are zeros in
  /// these lanes; elsewhere the same bytes are written again.
  struct Overlap {
    static constexpr bool may_stream = false;
    Vector lanes;
    Vector load(const uint8_t* at) const { return _mm256_and_si256(lanes, Vectors::load(at)); }
    static Vector sum(const uint8_t* at) { return Vectors::load(at); }
    static void store(uint8_t* at, Vector v) { Vectors::store(at, v); }
  };
  /// Chunks of less than a vector, by way of memory of our own.
  struct Short {
    static constexpr bool may_stream = false;
    size_t bytes;
    Vector load(const uint8_t* at) const {
      alignas(32) uint8_t whole[width] = {};
      __builtin_memcpy(whole, at, bytes);
      return Vectors::load(whole);
    }
    Vector sum(const uint8_t* at) const { return load(at); }
    void store(uint8_t* at, Vector v) const {
      alignas(32) uint8_t whole[width];
      Vectors::store(whole, v);
      __builtin_memcpy(at, whole, bytes);
    }
  };
  /// Codes bytes [at, end) of the chunks, which are less than a vector, by block(offset, io). adds: to the
  /// targets' bytes.
  template <class F>
  [[gnu::always_inline]] static void code_rest(size_t at, size_t end, bool adds, F&& block) {
    if (end < width) return block(at, Short{end - at});
    const Vector places = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                           19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const auto last_coded = static_cast<char>(adds ? width - 1 - (end - at) : -1);
    block(end - width, Overlap{_mm256_cmpgt_epi8(places, _mm256_set1_epi8(last_coded))});
  }
};
