// GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2:
// the field of Intel ISA-L and of Ceph's isa plugin.
#pragma once

#include <array>
#include <cstdint>

namespace ec::gf {

inline constexpr unsigned polynomial = 0x11d;

/// exp holds two periods, so that log a + log b needs no reduction mod 255.
struct LogTables {
  std::array<std::uint8_t, 510> exp{};
  std::array<std::uint8_t, 256> log{};
};

consteval LogTables make_log_tables() {
  LogTables t;
  unsigned x = 1;
  for (unsigned i = 0; i < 255; ++i) {
    t.exp[i] = t.exp[i + 255] = static_cast<std::uint8_t>(x);
    t.log[x] = static_cast<std::uint8_t>(i);
    x <<= 1;
    if (x & 0x100) x ^= polynomial;
  }
  return t;
}

inline constexpr LogTables log_tables = make_log_tables();

constexpr std::uint8_t mul(std::uint8_t a, std::uint8_t b) {
  if (a == 0 || b == 0) return 0;
  return log_tables.exp[log_tables.log[a] + log_tables.log[b]];
}

/// Multiplicative inverse; inv(0) is 0, as in ISA-L's gf_inv.
constexpr std::uint8_t inv(std::uint8_t a) { return a == 0 ? 0 : log_tables.exp[255 - log_tables.log[a]]; }

}  // namespace ec::gf
