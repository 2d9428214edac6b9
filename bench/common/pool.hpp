// The memory that contestants code: stripes of random bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ec::bench {

/// Overwrites with pseudo-random bytes that depend on `seed` alone; a few GB/s.
void fill_random(std::span<std::uint8_t> bytes, std::uint64_t seed);

/// `stripes` x `chunks` chunks in ordinary host memory, each 64-byte aligned, those of a stripe side by side.
class Pool {
 public:
  Pool(std::size_t stripes, unsigned chunks, std::size_t chunk_bytes);

  std::uint8_t* chunk(std::size_t stripe, unsigned index) const {
    return bytes_.get() + (stripe * chunks_ + index) * stride_;
  }
  std::size_t chunk_bytes() const { return chunk_bytes_; }
  /// The whole pool, padding included.
  std::span<std::uint8_t> bytes() const { return {bytes_.get(), stripes_ * chunks_ * stride_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const;
  };
  std::size_t stripes_;
  unsigned chunks_;
  std::size_t chunk_bytes_;
  std::size_t stride_;
  std::unique_ptr<std::uint8_t, Free> bytes_;
};

}  // namespace ec::bench
