// Shared by both 512-bit instruction sets. Included inside an unnamed namespace.

struct Vectors {
  using Vector = __m512i;
  static constexpr size_t width = 64;

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const uint8_t* at) { return _mm512_loadu_si512(at); }
  /// From now on in a register: GCC would load the value again for instructions that see bytes in it.
  static void keep(Vector& v) { asm("" : "+v"(v)); }
  static void store(uint8_t* at, Vector v) { _mm512_storeu_si512(at, v); }
  static void stream(uint8_t* at, Vector v) { _mm512_stream_si512(reinterpret_cast<__m512i*>(at), v); }
  static Vector add(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
  static Vector add(Vector a, Vector b, Vector c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }

  static Vector everywhere(long long x) { return _mm512_set1_epi64(x); }
  static Vector shifted_right_by_4(Vector v) { return _mm512_srli_epi64(v, 4); }
  static Vector table(const uint8_t* at) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Vector look_up(Vector table, Vector at) { return _mm512_shuffle_epi8(table, at); }
#ifdef __GFNI__
  static Vector affine(Vector v, Vector matrix) { return _mm512_gf2p8affine_epi64_epi8(v, matrix, 0); }
#endif

  /// Less than a vector: lanes past the end are neither read nor written.
  struct Rest {
    static constexpr bool may_stream = false;
    explicit Rest(size_t bytes) : lanes((__mmask64{1} << bytes) - 1) {}
    __mmask64 lanes;
    Vector load(const uint8_t* at) const { return _mm512_maskz_loadu_epi8(lanes, at); }
    Vector sum(const uint8_t* at) const { return load(at); }
    void store(uint8_t* at, Vector v) const { _mm512_mask_storeu_epi8(at, lanes, v); }
  };
  /// Codes bytes [at, end) of the chunks, which are less than a vector, by block(offset, io).
  template <class F>
  [[gnu::always_inline]] static void code_rest(size_t at, size_t end, bool, F&& block) {
    block(at, Rest(end - at));
  }
};
