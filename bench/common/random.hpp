// Random bytes to code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace ec::bench {

/// Overwrites with pseudo-random bytes that depend on `seed` alone; a few GB/s.
inline void fill_random(std::span<std::uint8_t> bytes, std::uint64_t seed) {
  // A Weyl sequence through a multiply-xorshift mixer: every word differs, none is zero for long.
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t word = (state ^ state >> 32) * 0xd6e8feb86659fd93;
    word ^= word >> 32;
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

}  // namespace ec::bench
