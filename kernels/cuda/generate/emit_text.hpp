// The parts of an emitted program that do not depend on the schedule.
#pragma once

#include <string_view>

namespace ec::kernels::cuda::text {

/// Types, XORs, memory access, the transposition. The asm statements are not volatile: the compiler may order
/// them as it likes, but not regroup XORs, which would undo the sharing of the schedule.
inline constexpr std::string_view preamble = R"(
typedef unsigned u;
typedef unsigned char byte;
typedef unsigned long long address;
#define X3(d,a,b,c) asm("lop3.b32 %0,%1,%2,%3,0x96;":"=r"(d):"r"(a),"r"(b),"r"(c))
#define X2(d,a,b) asm("xor.b32 %0,%1,%2;":"=r"(d):"r"(a),"r"(b))
static __device__ __forceinline__ uint4 load16(const byte* from) {
  uint4 v;
  asm volatile(LOAD ".v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}
static __device__ __forceinline__ void store16(byte* to, uint4 v) {
#if ACCUMULATE
  const uint4 old = *(const uint4*)to;
  v.x ^= old.x, v.y ^= old.y, v.z ^= old.z, v.w ^= old.w;
#endif
  asm volatile(STORE ".v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
#if MULTIPLY_LEFT
#define LEFT(v,stage) ((v) * p.multiplier[stage])
#else
#define LEFT(v,stage) ((v) << (4 >> (stage)))
#endif
#if MULTIPLY_RIGHT
#define RIGHT(v,stage) __umulhi(v, p.multiplier[3 + (stage)])
#else
#define RIGHT(v,stage) ((v) >> (4 >> (stage)))
#endif
// (low & mask) | (high & ~mask)
static __device__ __forceinline__ u pick(u low, u high, u mask) {
  u d;
  asm("lop3.b32 %0,%1,%2,%3,0xca;" : "=r"(d) : "r"(mask), "r"(low), "r"(high));
  return d;
}
#define SWAP(a,b,stage,mask) { const u l = LEFT(b,stage), r = RIGHT(a,stage); a = pick(a,l,mask); b = pick(r,b,mask); }
// Eight words of four bytes into eight bit planes, and back.
#define T(a,b,c,d,e,f,g,h) { \
  SWAP(a,e,0,0x0f0f0f0f) SWAP(b,f,0,0x0f0f0f0f) SWAP(c,g,0,0x0f0f0f0f) SWAP(d,h,0,0x0f0f0f0f) \
  SWAP(a,c,1,0x33333333) SWAP(b,d,1,0x33333333) SWAP(e,g,1,0x33333333) SWAP(f,h,1,0x33333333) \
  SWAP(a,b,2,0x55555555) SWAP(c,d,2,0x55555555) SWAP(e,f,2,0x55555555) SWAP(g,h,2,0x55555555) }
#define LD(x,y,chunk) { const byte* from = (chunk) + offset; x = load16(from); y = load16(from + 512); }
#define ST(t,a,b,c,d,e,f,g,h) { T(a,b,c,d,e,f,g,h) byte* to = TARGET(t) + offset; \
  if (first) store16(to, make_uint4(a,b,c,d)); if (second) store16(to + 512, make_uint4(e,f,g,h)); }
)";

inline constexpr std::string_view stripe_parameters = R"(
struct Parameters { address source[K], target[M], bytes, stripes; u multiplier[6]; };
#define STRIPES 1
#define SOURCE(i) ((const byte*)p.source[i])
#define TARGET(i) ((byte*)p.target[i])
)";

inline constexpr std::string_view batch_parameters = R"(
#define BATCH
struct Parameters { const address* table; address bytes, stripes; u multiplier[6]; };
#define STRIPES p.stripes
#define SOURCE(i) ((const byte*)__ldg(chunks + (i)))
#define TARGET(i) ((byte*)__ldg(chunks + K + (i)))
)";

/// What the tiles leave: chunks shorter than a tile, and the last bytes of chunks that are no multiple of 16.
inline constexpr std::string_view bytewise = R"(
__constant__ byte coefficient[M * K] = {COEFFICIENTS};
static __device__ __noinline__ void bytewise(const Parameters& p, address stripe, address from) {
#ifdef BATCH
  const address* chunks = p.table + stripe * (K + M);
#endif
  for (address at = from + threadIdx.x; at < p.bytes; at += THREADS)
    for (int t = 0; t < M; ++t) {
      u sum = ACCUMULATE ? TARGET(t)[at] : 0;
      for (int s = 0; s < K; ++s) {
        const u v = SOURCE(s)[at];
        u c = coefficient[t * K + s];
        for (int bit = 0; bit < 8; ++bit) {
          sum ^= (v >> bit & 1) * c;
          c = c << 1 ^ (c >> 7) * 0x11d;
        }
      }
      TARGET(t)[at] = sum;
    }
}
)";

/// A warp codes 1024 bytes at once: a lane has 16 of the lower and 16 of the upper half. If the chunk does not
/// divide, its last tile starts early and overlaps the one before; only bytes not coded there are stored.
inline constexpr std::string_view tile_loop = R"(
  const u lane = threadIdx.x % 32, warps = THREADS / 32;
  const address tiles = p.bytes < 1024 ? 0 : (p.bytes / 16 * 16 + 1023) / 1024;
  const address all = tiles * STRIPES;
  const address last = p.bytes / 16 * 16 - 1024;
#if LOCKSTEP
  for (address base = (address)blockIdx.x * warps; base < all; base += (address)gridDim.x * warps) {
    const bool mine = base + threadIdx.x / 32 < all;
    const address tile = mine ? base + threadIdx.x / 32 : all - 1;
#else
  for (address tile = (address)blockIdx.x * warps + threadIdx.x / 32; tile < all; tile += (address)gridDim.x * warps) {
    const bool mine = true;
#endif
#ifdef BATCH
    const u stripe = (u)tile / (u)tiles, in_stripe = (u)tile - stripe * (u)tiles;
    const address* chunks = p.table + (address)stripe * (K + M);
    const address start = (address)in_stripe * 1024;
#else
    const address start = tile * 1024;
#endif
    const address offset = (start < last ? start : last) + lane * 16;
    const bool first = mine && offset >= start, second = mine && offset + 512 >= start;
    u a[8 * M];
#pragma unroll
    for (int i = 0; i < 8 * M; ++i) a[i] = 0;
)";

inline constexpr std::string_view end_of_kernel = R"(
  }
  const address done = tiles == 0 ? 0 : p.bytes / 16 * 16;
  if (done != p.bytes)
    for (address stripe = blockIdx.x; stripe < STRIPES; stripe += gridDim.x) bytewise(p, stripe, done);
}
)";

}  // namespace ec::kernels::cuda::text
