// The parts of a generated kernel that do not depend on its matrix: parameters, access to memory, the
// transposition, the loop over tiles. A generated file (emit.cpp) holds the XORs.
#pragma once

#include "kernels/cuda/generate/generated_args.hpp"

namespace ec::kernels::cuda {

using Word = unsigned;
using Byte = unsigned char;
using Address = unsigned long long;

/// A lane has 16 bytes of the lower and 16 of the upper half of a tile.
struct Tile {
  const Address* chunks;  ///< of many stripes: the addresses of this stripe
  Address offset;         ///< of the lane's first bytes in every chunk
  bool lower, upper;      ///< whether these bytes are stored
};

/// generated_args.hpp
template <unsigned k, unsigned m>
struct OneStripe {
  Address chunk[k + m], bytes;

  __device__ Address stripe_count() const { return 1; }
  __device__ Tile tile(Address index, Address) const {
    return {nullptr, index * generated_tile, false, false};
  }
  __device__ Byte* at(const Tile& tile, unsigned i) const {
    return reinterpret_cast<Byte*>(chunk[i]) + tile.offset;
  }
};

template <unsigned k, unsigned m>
struct ManyStripes {
  const Address* table;
  Address bytes, stripes;

  __device__ Address stripe_count() const { return stripes; }
  __device__ Tile tile(Address index, Address tiles) const {
    const Word stripe = static_cast<Word>(index) / static_cast<Word>(tiles);
    const Word in_stripe = static_cast<Word>(index) - stripe * static_cast<Word>(tiles);
    return {table + Address{stripe} * (k + m), Address{in_stripe} * generated_tile, false, false};
  }
  __device__ Byte* at(const Tile& tile, unsigned i) const {
    return reinterpret_cast<Byte*>(__ldg(tile.chunks + i)) + tile.offset;
  }
};

__device__ __forceinline__ uint4 load16(const Byte* from) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3},[%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ void store16(Byte* to, uint4 v) {
  asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

/// Codes all tiles by Code::unit. If a chunk does not divide, its last tile starts early and overlaps the one
/// before; only bytes not coded there are stored.
template <class Code, class Stripes>
__device__ __forceinline__ void code_tiles(const Stripes& p) {
  const Word lane = threadIdx.x % 32, warps = generated_threads / 32;
  const Address tiles = (p.bytes + generated_tile - 1) / generated_tile;
  const Address all = tiles * p.stripe_count();
  const Address last = p.bytes - generated_tile;
#pragma unroll 1
  for (Address index = Address{blockIdx.x} * warps + threadIdx.x / 32; index < all;
       index += Address{gridDim.x} * warps) {
    Tile tile = p.tile(index, tiles);
    const Address start = tile.offset;
    tile.offset = (start < last ? start : last) + lane * 16;
    tile.lower = tile.offset >= start;
    tile.upper = tile.offset + generated_tile / 2 >= start;
    Code::unit(p, tile);
  }
}

}  // namespace ec::kernels::cuda

// The macros of a generated file, with `p` and `tile` as above. The asm statements are not volatile: the
// compiler may choose their order, but not regroup XORs, which would undo the sharing of the schedule.
#define X3(d, a, b, c) asm("lop3.b32 %0,%1,%2,%3,0x96;" : "=r"(d) : "r"(a), "r"(b), "r"(c))
#define X2(d, a, b) asm("xor.b32 %0,%1,%2;" : "=r"(d) : "r"(a), "r"(b))
// Swaps the upper fields of a with the lower fields of b; 0xca is (mask & x) | (~mask & y).
#define SWAP(a, b, bits, mask)                     \
  "shl.b32 l," b "," bits ";shr.u32 r," a "," bits \
  ";"                                              \
  "lop3.b32 " a "," mask "," a ",l,0xca;lop3.b32 " b "," mask ",r," b ",0xca;"
#define SWAP4(a, b) SWAP(a, b, "4", "0x0f0f0f0f")
#define SWAP2(a, b) SWAP(a, b, "2", "0x33333333")
#define SWAP1(a, b) SWAP(a, b, "1", "0x55555555")
// Eight words of four bytes into eight bit planes, and back.
#define TRANSPOSE(a, b, c, d, e, f, g, h)                                                           \
  asm("{.reg .b32 l,r;" SWAP4("%0", "%4") SWAP4("%1", "%5") SWAP4("%2", "%6") SWAP4("%3", "%7")     \
          SWAP2("%0", "%2") SWAP2("%1", "%3") SWAP2("%4", "%6") SWAP2("%5", "%7") SWAP1("%0", "%1") \
              SWAP1("%2", "%3") SWAP1("%4", "%5") SWAP1("%6", "%7") "}"                             \
      : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h))
#define LOAD(x, y, i)                      \
  {                                        \
    const Byte* from = p.at(tile, i);      \
    x = load16(from);                      \
    y = load16(from + generated_tile / 2); \
  }
#define STORE(i, a, b, c, d, e, f, g, h)                                      \
  {                                                                           \
    TRANSPOSE(a, b, c, d, e, f, g, h);                                        \
    Byte* to = p.at(tile, i);                                                 \
    if (tile.lower) store16(to, make_uint4(a, b, c, d));                      \
    if (tile.upper) store16(to + generated_tile / 2, make_uint4(e, f, g, h)); \
  }
/// The kernels of Code, by its name: for one stripe and for many.
#define KERNELS(Code, k, m)                                       \
  extern "C" __global__ void __launch_bounds__(generated_threads) \
      Code##_one(const __grid_constant__ OneStripe<k, m> p) {     \
    code_tiles<Code>(p);                                          \
  }                                                               \
  extern "C" __global__ void __launch_bounds__(generated_threads) \
      Code##_many(const __grid_constant__ ManyStripes<k, m> p) {  \
    code_tiles<Code>(p);                                          \
  }
