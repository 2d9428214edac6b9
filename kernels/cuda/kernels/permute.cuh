// Bytes chosen out of words, and tables of products made of them. Device code shared by kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernels/pack.cuh"

namespace ec::kernels::cuda {

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

/// Products 0, a, b, a + b as bytes of a word.
__device__ __forceinline__ std::uint32_t four_products(std::uint32_t a, std::uint32_t b) {
  return a << 8 | b << 16 | (a ^ b) << 24;
}

/// Words x0 y0 x1 y1 and x2 y2 x3 y3, as selectors of two words at once give them, as x0 x1 x2 x3 and y0 y1
/// y2 y3; twice.
__device__ __forceinline__ Pack<16> sorted(const Pack<16>& q) {
  return {{permute(q.lane[0], q.lane[1], 0x6420), permute(q.lane[0], q.lane[1], 0x7531),
           permute(q.lane[2], q.lane[3], 0x6420), permute(q.lane[2], q.lane[3], 0x7531)}};
}

}  // namespace ec::kernels::cuda
