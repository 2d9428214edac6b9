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

  /// Less than a vector, by way of memory of our own.
  struct Rest {
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
};
