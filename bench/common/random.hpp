// Random bytes to code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

namespace ec::bench {

/// Overwrites with pseudo-random bytes that depend on `seed` alone; a few GB/s.
inline void fill_random(std::span<std::uint8_t> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

}  // namespace ec::bench
