// The parameter of the XOR kernel, shared by host and device.
#pragma once

#include <cstdint>

namespace ec::bench {

struct XorArgs {
  std::uint64_t bytes;  ///< of every chunk; a multiple of xor_tile
  std::uint32_t sources;
  std::uint32_t targets;
  std::uint64_t chunks[255];
};

/// Bytes that a warp works on at a time: two fetches of 16 bytes a thread.
inline constexpr unsigned xor_tile = 1024;
inline constexpr unsigned xor_most_threads = 256;

/// Counts of sources whose fetches are unrolled; any other count goes through ec_xor_any.
#define EC_XOR_SOURCES(X) X(2) X(4) X(6) X(8) X(10) X(12) X(16) X(20) X(32)

}  // namespace ec::bench
