// Rung 6, register tile: against the tile of 128-bit words, nothing but tables of coefficients is in shared
// memory. A thread keeps a tile of Rows targets x 16 * Packs bytes in registers and goes through the sources;
// it fetches the next source, 16 bytes a fetch, while it multiplies the present one (double buffering in
// registers). A source byte is used by one thread only, so staging it for others was a detour with two
// barriers a step.
//
// Multiplication: a byte is split into 3 + 3 + 2 bits, and PRMT looks each part up in the 8, 8 and 4 products
// of the coefficient, four bytes an instruction. PRMT takes selectors of four bits, so those of two words x,
// y are made together, a nibble of each in turn; the products come out as x0 y0 x1 y1 and x2 y2 x3 y3 and are
// sorted once a target, at the end. Against eight doublings with conditional sums: 3 PRMT and 2 XOR a word
// and target. Shared memory is free of conflicts: all threads of a warp read the tables of the same
// coefficient, a broadcast.
//
// Expected gain: the instructions a byte fall below what the memory takes for small m; a warp moves 512
// consecutive bytes a fetch with the next one in flight. Codes with more than 8 targets read the sources once
// for 8 of them. Chunks must be aligned to 16 bytes.
#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/kernels/pack.cuh"

// Not in the nameless namespace: nvcc makes its name of the path that this file has where it is compiled.
extern __shared__ uint4 shared[];

namespace {

using namespace ec::kernels::cuda;
using namespace ec::bench::ladder;

using Quad = Pack<16>;

__device__ __forceinline__ std::uint32_t doubled(std::uint32_t c) { return (c << 1) ^ ((c >> 7) * 0x11du); }

/// Of the bits 0-2 (x, y), 3-5 (z, w) and 6-7 (high).
__device__ __forceinline__ void make_tables(std::uint32_t c, uint4& low, std::uint32_t& high) {
  std::uint32_t p[8];
  p[0] = c;
#pragma unroll
  for (unsigned b = 1; b < 8; ++b) p[b] = doubled(p[b - 1]);
  low.x = four_products(p[0], p[1]);
  low.y = low.x ^ p[2] * 0x01010101u;
  low.z = four_products(p[3], p[4]);
  low.w = low.z ^ p[5] * 0x01010101u;
  high = four_products(p[6], p[7]);
}

/// Zeros stand in for what is behind the chunk, whose length is a multiple of 16.
__device__ __forceinline__ Quad fetch(const std::uint8_t* chunk, std::uint64_t at, std::uint64_t end) {
  if (at >= end) return {};
  const uint4 v = __ldcs(reinterpret_cast<const uint4*>(chunk + at));
  return {{v.x, v.y, v.z, v.w}};
}

__device__ __forceinline__ void put(std::uint8_t* chunk, std::uint64_t at, std::uint64_t end, const Quad& q) {
  if (at < end)
    __stcs(reinterpret_cast<uint4*>(chunk + at), make_uint4(q.lane[0], q.lane[1], q.lane[2], q.lane[3]));
}

/// sum[r] += coefficient r * x, interleaved; low and high: tables of the coefficients of one source.
template <unsigned Rows>
__device__ __forceinline__ void add_products(Quad (&sum)[Rows], const Quad& x, const uint4* low,
                                             const std::uint32_t* high) {
  std::uint32_t selector[3][4];
#pragma unroll
  for (unsigned w = 0; w < 4; w += 2) {
    const std::uint32_t a = x.lane[w], b = x.lane[w + 1];
    selector[0][w] = (a & 0x07070707u) | (b << 4 & 0x70707070u);
    selector[1][w] = (a >> 3 & 0x07070707u) | (b << 1 & 0x70707070u);
    selector[2][w] = (a >> 6 & 0x03030303u) | (b >> 2 & 0x30303030u);
#pragma unroll
    for (unsigned part = 0; part < 3; ++part) selector[part][w + 1] = selector[part][w] >> 16;
  }
#pragma unroll
  for (unsigned r = 0; r < Rows; ++r) {
    const uint4 t = low[r];
    const std::uint32_t u = high[r];
#pragma unroll
    for (unsigned w = 0; w < 4; ++w)
      sum[r].lane[w] ^= permute(t.x, t.y, selector[0][w]) ^ permute(t.z, t.w, selector[1][w]) ^
                        permute(u, u, selector[2][w]);
  }
}

template <unsigned Rows>
struct Tables {
  uint4* low;           // [source][row]
  std::uint32_t* high;  // the same

  __device__ explicit Tables(unsigned depth) {
    low = shared;
    high = reinterpret_cast<std::uint32_t*>(shared + depth * Rows);
  }
  /// Of `count` sources from `first`, by the whole block. Rows past the last have zeros.
  __device__ void make(const KernelArgs& args, unsigned first, unsigned count) const {
    const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
    for (unsigned i = threadIdx.x; i < count * Rows; i += blockDim.x) {
      const unsigned row = blockIdx.y * Rows + i % Rows;
      const unsigned c = row < args.targets ? coefficients[row * args.sources + first + i / Rows] : 0;
      make_tables(c, low[i], high[i]);
    }
  }
};

template <unsigned Rows, unsigned Packs>
__device__ __forceinline__ void transform(const KernelArgs& args) {
  constexpr unsigned warp_bytes = 32 * 16 * Packs;
  const Tables<Rows> tables(args.tile_depth);
  const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args.blob);
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const unsigned block_bytes = blockDim.x / 32 * warp_bytes;
  const unsigned in_block = threadIdx.x / 32 * warp_bytes + threadIdx.x % 32 * 16;
  const bool tables_stay = args.sources <= args.tile_depth;
  if (tables_stay) {
    tables.make(args, 0, args.sources);
    __syncthreads();
  }

  const std::uint64_t step = std::uint64_t{gridDim.x} * block_bytes;
  for (std::uint64_t base = std::uint64_t{blockIdx.x} * block_bytes; base < args.bytes; base += step) {
    const std::uint64_t at = base + in_block;
    Quad sum[Packs][Rows] = {};
    Quad next[Packs];
#pragma unroll
    for (unsigned p = 0; p < Packs; ++p) next[p] = fetch(sources[0], at + 512 * p, args.bytes);
    for (unsigned first = 0; first < args.sources; first += args.tile_depth) {
      const unsigned count = min(args.tile_depth, args.sources - first);
      if (!tables_stay) {
        __syncthreads();
        tables.make(args, first, count);
        __syncthreads();
      }
      for (unsigned s = 0; s < count; ++s) {
        Quad x[Packs];
#pragma unroll
        for (unsigned p = 0; p < Packs; ++p) x[p] = next[p];
        if (first + s + 1 < args.sources)
#pragma unroll
          for (unsigned p = 0; p < Packs; ++p)
            next[p] = fetch(sources[first + s + 1], at + 512 * p, args.bytes);
#pragma unroll
        for (unsigned p = 0; p < Packs; ++p)
          add_products(sum[p], x[p], tables.low + s * Rows, tables.high + s * Rows);
      }
    }
#pragma unroll
    for (unsigned r = 0; r < Rows; ++r) {
      const unsigned row = blockIdx.y * Rows + r;
      if (row >= args.targets) break;
#pragma unroll
      for (unsigned p = 0; p < Packs; ++p) put(targets[row], at + 512 * p, args.bytes, sorted(sum[p][r]));
    }
  }
}

}  // namespace

// The blocks that a multiprocessor is to hold bound the registers: without them, some chips spill to fit one
// more.
#define EC_REGISTER_TILE(rows, packs, blocks)                            \
  extern "C" __global__ void __launch_bounds__(register_threads, blocks) \
      ec_register_tile_##rows(const __grid_constant__ KernelArgs args) { \
    transform<rows, packs>(args);                                        \
  }
EC_REGISTER_TILE(2, 2, 3)
EC_REGISTER_TILE(3, 2, 3)
EC_REGISTER_TILE(4, 2, 2)
EC_REGISTER_TILE(8, 1, 3)
