// GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2:
// the field of Intel ISA-L and of Ceph's isa plugin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ec::gf {

inline constexpr unsigned polynomial = 0x11d;

/// exp holds two periods, so that log a + log b needs no reduction mod 255, and zeros behind them for sums
/// with the logarithm of zero: a product needs no case for zero.
struct LogTables {
  static constexpr std::uint16_t log_of_zero = 510;
  std::array<std::uint8_t, 2 * log_of_zero + 1> exp{};
  std::array<std::uint16_t, 256> log{};
};

consteval LogTables make_log_tables() {
  LogTables t;
  unsigned x = 1;
  for (unsigned i = 0; i < 255; ++i) {
    t.exp[i] = t.exp[i + 255] = static_cast<std::uint8_t>(x);
    t.log[x] = static_cast<std::uint16_t>(i);
    x <<= 1;
    if (x & 0x100) x ^= polynomial;
  }
  t.log[0] = LogTables::log_of_zero;
  return t;
}

inline constexpr LogTables log_tables = make_log_tables();

constexpr std::uint8_t mul(std::uint8_t a, std::uint8_t b) {
  return log_tables.exp[std::size_t{log_tables.log[a]} + log_tables.log[b]];
}

/// Multiplicative inverse; inv(0) is 0, as in ISA-L's gf_inv.
constexpr std::uint8_t inv(std::uint8_t a) { return a == 0 ? 0 : log_tables.exp[255u - log_tables.log[a]]; }

/// to[i] ^= factor * from[i], for every i of `from`. The two must not overlap.
constexpr void add_scaled(std::span<std::uint8_t> to, std::span<const std::uint8_t> from,
                          std::uint8_t factor) {
  const std::size_t shift = log_tables.log[factor];
  for (std::size_t i = 0; i < from.size(); ++i) to[i] ^= log_tables.exp[shift + log_tables.log[from[i]]];
}

}  // namespace ec::gf
