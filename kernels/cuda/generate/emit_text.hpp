// The parts of an emitted program that do not depend on the schedule.
#pragma once

#include <string_view>

namespace ec::kernels::cuda::text {

/// What the text below may be told: cache hints of loads and stores, and which shifts of the transposition
/// are products, because bit logic and shifts share one pipe of the chip. These were the fastest (emit.cpp).
inline constexpr std::string_view choices = R"(#define LOAD "ld.global.nc"
#define STORE "st.global"
#define MULTIPLY_LEFT 0
#define MULTIPLY_RIGHT 0
)";

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
#define LEFT(d,a,bits,multiplier) "mul.lo.u32 " d "," a "," multiplier ";"
#else
#define LEFT(d,a,bits,multiplier) "shl.b32 " d "," a "," bits ";"
#endif
#if MULTIPLY_RIGHT
#define RIGHT(d,a,bits,multiplier) "mul.hi.u32 " d "," a "," multiplier ";"
#else
#define RIGHT(d,a,bits,multiplier) "shr.u32 " d "," a "," bits ";"
#endif
// Swaps the upper fields of a with the lower fields of b; 0xca is (mask & x) | (~mask & y).
#define SWAP(a,b,bits,mask,left,right) \
  LEFT("l",b,bits,left) RIGHT("r",a,bits,right) \
  "lop3.b32 " a "," mask "," a ",l,0xca;" "lop3.b32 " b "," mask ",r," b ",0xca;"
#define SWAP4(a,b) SWAP(a,b,"4","0x0f0f0f0f","%8","%11")
#define SWAP2(a,b) SWAP(a,b,"2","0x33333333","%9","%12")
#define SWAP1(a,b) SWAP(a,b,"1","0x55555555","%10","%13")
// Eight words of four bytes into eight bit planes, and back.
#define T(a,b,c,d,e,f,g,h) asm("{.reg .b32 l,r;" \
  SWAP4("%0","%4") SWAP4("%1","%5") SWAP4("%2","%6") SWAP4("%3","%7") \
  SWAP2("%0","%2") SWAP2("%1","%3") SWAP2("%4","%6") SWAP2("%5","%7") \
  SWAP1("%0","%1") SWAP1("%2","%3") SWAP1("%4","%5") SWAP1("%6","%7") "}" \
  : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h) \
  : "r"(p.multiplier[0]), "r"(p.multiplier[1]), "r"(p.multiplier[2]), \
    "r"(p.multiplier[3]), "r"(p.multiplier[4]), "r"(p.multiplier[5]))
#define LD(x,y,chunk) { const byte* from = (chunk) + offset; x = load16(from); y = load16(from + 512); }
#define ST(t,a,b,c,d,e,f,g,h) { T(a,b,c,d,e,f,g,h); byte* to = TARGET(t) + offset; \
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

/// A warp codes 1024 bytes at once: a lane has 16 of the lower and 16 of the upper half. If the chunk does
/// not divide, its last tile starts early and overlaps the one before; only bytes not coded there are stored.
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
)";

inline constexpr std::string_view end_of_kernel = R"(
  }
  const address done = tiles == 0 ? 0 : p.bytes / 16 * 16;
  if (done != p.bytes)
    for (address stripe = blockIdx.x; stripe < STRIPES; stripe += gridDim.x) bytewise(p, stripe, done);
}
)";

}  // namespace ec::kernels::cuda::text
