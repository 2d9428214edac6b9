// What both 256-bit instruction sets share. Included inside an unnamed namespace.

struct Vector256 {
  using Vector = __m256i;
  static constexpr size_t width = 32;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
  static void store(uint8_t* at, Vector v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), v); }
  static void stream(uint8_t* at, Vector v) { _mm256_stream_si256(reinterpret_cast<__m256i*>(at), v); }
  static Vector add(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  static Vector add(Vector a, Vector b, Vector c) { return add(a, add(b, c)); }

  /// The last bytes of a chunk of at least one vector: the last whole vector, with the bytes that are done
  /// already read as zero from sources, and kept in targets.
  struct Overlapped {
    static constexpr bool sums_from_targets = true;
    size_t back;
    Vector fresh;  ///< all ones in the bytes still to do
    bool accumulate;
    Vector load(const uint8_t* at) const { return _mm256_and_si256(Vector256::load(at - back), fresh); }
    Vector sum(const uint8_t* at) const {
      const Vector there = Vector256::load(at - back);
      return accumulate ? there : _mm256_andnot_si256(fresh, there);
    }
    void store(uint8_t* at, Vector v) const { Vector256::store(at - back, v); }
  };

  /// Chunks shorter than a vector.
  struct Short {
    static constexpr bool sums_from_targets = false;
    size_t bytes;
    Vector load(const uint8_t* at) const {
      alignas(32) uint8_t whole[width] = {};
      __builtin_memcpy(whole, at, bytes);
      return Vector256::load(whole);
    }
    Vector sum(const uint8_t* at) const { return load(at); }
    void store(uint8_t* at, Vector v) const {
      alignas(32) uint8_t whole[width];
      Vector256::store(whole, v);
      __builtin_memcpy(at, whole, bytes);
    }
  };

  template <class F>
  static void with_rest(const Call& call, size_t rest, F&& f) {
    if (call.bytes < width) return f(Short{rest});
    static constexpr uint8_t edge[2 * width] = {
        0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
        0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    f(Overlapped{width - rest, load(edge + rest), call.accumulate});
  }
};
