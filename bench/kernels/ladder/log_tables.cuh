// Logarithms and powers of 2 in GF(2^8), in constant initialisers of device memory and copied to shared
// memory by each block: lookups of different addresses by the threads of a warp are served there, bank by
// bank.
#pragma once

#include <cstdint>

namespace ec::bench::ladder {

/// exp holds two periods, so that the sum of two logarithms needs no reduction; log[0] is not used.
struct LogTables {
  std::uint8_t exp[512];
  std::uint8_t log[256];
};

constexpr LogTables make_log_tables() {
  LogTables t{};
  unsigned x = 1;
  for (unsigned i = 0; i < 255; ++i) {
    t.exp[i] = t.exp[i + 255] = static_cast<std::uint8_t>(x);
    t.log[x] = static_cast<std::uint8_t>(i);
    x <<= 1;
    if (x & 0x100) x ^= 0x11d;
  }
  return t;
}

__device__ const LogTables log_tables = make_log_tables();

/// Copies the tables with all threads of the block; the caller synchronises.
__device__ inline void copy_log_tables(LogTables& to) {
  const unsigned threads = blockDim.x * blockDim.y;
  for (unsigned i = threadIdx.y * blockDim.x + threadIdx.x; i < 512; i += threads) {
    to.exp[i] = log_tables.exp[i];
    if (i < 256) to.log[i] = log_tables.log[i];
  }
}

__device__ inline std::uint8_t multiply(const LogTables& t, std::uint8_t a, std::uint8_t b) {
  return a == 0 || b == 0 ? 0 : t.exp[t.log[a] + t.log[b]];
}

}  // namespace ec::bench::ladder
