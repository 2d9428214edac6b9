// Several field elements in registers: fetched, stored and added together; bytes chosen out of words. Device
// code shared by the kernels.
#pragma once

#include <cstdint>

namespace ec::kernels::cuda {

/// 1, 2, 4, 8 or 16 field elements in 32-bit lanes.
template <unsigned Bytes>
struct alignas(Bytes < 4 ? 4 : Bytes) Pack {
  static constexpr unsigned lanes = Bytes < 4 ? 1 : Bytes / 4;
  std::uint32_t lane[lanes];
};

__device__ inline std::uint32_t times_two(std::uint32_t x) {
  return ((x & 0x7f7f7f7fu) << 1) ^ ((x >> 7 & 0x01010101u) * 0x1du);
}

template <unsigned Bytes>
__device__ inline Pack<Bytes> load_whole(const std::uint8_t* p) {
  if constexpr (Bytes == 1) return {{*p}};
  if constexpr (Bytes == 2) return {{*reinterpret_cast<const std::uint16_t*>(p)}};
  if constexpr (Bytes >= 4) return *reinterpret_cast<const Pack<Bytes>*>(p);
}

template <unsigned Bytes>
__device__ inline void store_whole(std::uint8_t* p, const Pack<Bytes>& w) {
  if constexpr (Bytes == 1) *p = static_cast<std::uint8_t>(w.lane[0]);
  if constexpr (Bytes == 2) *reinterpret_cast<std::uint16_t*>(p) = static_cast<std::uint16_t>(w.lane[0]);
  if constexpr (Bytes >= 4) *reinterpret_cast<Pack<Bytes>*>(p) = w;
}

/// The word at byte `at` of a chunk; bytes past the end of the chunk read as zero.
template <unsigned Bytes>
__device__ inline Pack<Bytes> load(const std::uint8_t* chunk, std::uint64_t at, std::uint64_t end) {
  if (at + Bytes <= end) return load_whole<Bytes>(chunk + at);
  Pack<Bytes> w{};
#pragma unroll
  for (unsigned i = 0; i < Bytes; ++i)
    if (at + i < end) w.lane[i / 4] |= std::uint32_t{chunk[at + i]} << 8 * (i % 4);
  return w;
}

template <unsigned Bytes>
__device__ inline void store(std::uint8_t* chunk, std::uint64_t at, std::uint64_t end, const Pack<Bytes>& w) {
  if (at + Bytes <= end) return store_whole<Bytes>(chunk + at, w);
#pragma unroll
  for (unsigned i = 0; i < Bytes; ++i)
    if (at + i < end) chunk[at + i] = static_cast<std::uint8_t>(w.lane[i / 4] >> 8 * (i % 4));
}

template <unsigned Bytes>
__device__ inline void add_to(Pack<Bytes>& sum, const Pack<Bytes>& x) {
#pragma unroll
  for (unsigned l = 0; l < Pack<Bytes>::lanes; ++l) sum.lane[l] ^= x.lane[l];
}

/// *difference becomes no more than `at` plus the first byte that is not zero. Where all bytes differ, most
/// threads only look.
template <unsigned Bytes>
__device__ inline void note_difference(unsigned long long* difference, std::uint64_t at,
                                       const Pack<Bytes>& w) {
#pragma unroll
  for (unsigned l = 0; l < Pack<Bytes>::lanes; ++l) {
    const unsigned long long byte = at + 4 * l + (__ffs(static_cast<int>(w.lane[l])) - 1) / 8;
    if (w.lane[l] == 0) continue;
    if (byte < *static_cast<volatile unsigned long long*>(difference)) atomicMin(difference, byte);
    return;
  }
}

/// Four bytes out of the eight of (low, high). Selectors have their fourth bit clear.
__device__ __forceinline__ std::uint32_t permute(std::uint32_t low, std::uint32_t high,
                                                 std::uint32_t selector) {
  std::uint32_t d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(low), "r"(high), "r"(selector));
  return d;
}

/// (mask & x) | (~mask & y)
__device__ __forceinline__ std::uint32_t pick(std::uint32_t mask, std::uint32_t x, std::uint32_t y) {
  return (mask & x) | (~mask & y);
}

/// Words x0 y0 x1 y1 and x2 y2 x3 y3, as selectors of two words at once give them, as x0 x1 x2 x3 and y0 y1
/// y2 y3; twice.
__device__ __forceinline__ Pack<16> sorted(const Pack<16>& q) {
  return {{permute(q.lane[0], q.lane[1], 0x6420), permute(q.lane[0], q.lane[1], 0x7531),
           permute(q.lane[2], q.lane[3], 0x6420), permute(q.lane[2], q.lane[3], 0x7531)}};
}

}  // namespace ec::kernels::cuda
