// The first device kernel: target = M . source over GF(2^8) in generalised tiles, for any matrix.
//
// A block computes tileWidthRow x tileWidthCol words of the result (rows: targets, columns: words of a
// chunk), going through the sources in steps of tileDepth, which it stages in shared memory:
//   tileWidthCol = blockDim.x, tileWidthRow = rows_per_thread * blockDim.y, tileDepth = args.tile_depth,
// all chosen at launch. Thread (x, y) owns column x and rows_per_thread consecutive rows.
// A word holds 1, 2, 4, 8 or 16 field elements, which are multiplied together: x, 2x, 4x .. 128x are made
// once a word (shift and reduce by 0x1d) and added into each row whose coefficient has the bit. Coefficients
// are the same for all threads of a row, so the branches do not diverge. Reads each source ceil(targets /
// tileWidthRow) times, writes each target once. Tiling follows the textbook matrix product in shared memory;
// the packed multiplication is Russian-peasant.
#include <cstdint>

#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/kernels/pack.cuh"

// Not in the nameless namespace: nvcc would name it by the path of this file on the machine that compiles it.
extern __shared__ uint4 shared[];

namespace {

using namespace ec::kernels::cuda;

/// sum[r] += coefficient[r] * x
template <unsigned Bytes>
__device__ void add_products(Pack<Bytes> (&sum)[rows_per_thread],
                             const unsigned (&coefficient)[rows_per_thread], Pack<Bytes> x) {
#pragma unroll
  for (unsigned bit = 0; bit < 8; ++bit) {
#pragma unroll
    for (unsigned r = 0; r < rows_per_thread; ++r)
      if (coefficient[r] >> bit & 1) add_to(sum[r], x);
#pragma unroll
    for (unsigned l = 0; l < Pack<Bytes>::lanes; ++l) x.lane[l] = times_two(x.lane[l]);
  }
}

template <unsigned Bytes>
__device__ void transform(const KernelArgs& args) {
  using Word = Pack<Bytes>;
  Word* tile = reinterpret_cast<Word*>(shared);  // tile_depth x blockDim.x

  const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args.blob);
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
  const unsigned first_row = (blockIdx.y * blockDim.y + threadIdx.y) * rows_per_thread;
  const std::uint64_t words = (args.bytes + Bytes - 1) / Bytes;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;

  for (std::uint64_t base = std::uint64_t{blockIdx.x} * blockDim.x; base < words; base += step) {
    const std::uint64_t at = (base + threadIdx.x) * Bytes;
    const bool inside = base + threadIdx.x < words;
    Word sum[rows_per_thread] = {};
    for (unsigned depth = 0; depth < args.sources; depth += args.tile_depth) {
      const unsigned staged = min(args.tile_depth, args.sources - depth);
      __syncthreads();
      if (inside)
        for (unsigned d = threadIdx.y; d < staged; d += blockDim.y)
          tile[d * blockDim.x + threadIdx.x] = load<Bytes>(sources[depth + d], at, args.bytes);
      __syncthreads();
      if (!inside) continue;
      for (unsigned d = 0; d < staged; ++d) {
        unsigned coefficient[rows_per_thread];
#pragma unroll
        for (unsigned r = 0; r < rows_per_thread; ++r)
          coefficient[r] =
              first_row + r < args.targets ? coefficients[(first_row + r) * args.sources + depth + d] : 0;
        add_products(sum, coefficient, tile[d * blockDim.x + threadIdx.x]);
      }
    }
    if (!inside) continue;
#pragma unroll
    for (unsigned r = 0; r < rows_per_thread; ++r) {
      if (first_row + r >= args.targets) break;
      std::uint8_t* target = targets[first_row + r];
      if (args.accumulate || args.difference != nullptr) add_to(sum[r], load<Bytes>(target, at, args.bytes));
      if (args.difference != nullptr)
        note_difference(args.difference, args.first_byte + at, sum[r]);
      else
        store<Bytes>(target, at, args.bytes, sum[r]);
    }
  }
}

}  // namespace

#define EC_TILE_KERNEL(bits)                                                            \
  extern "C" __global__ void ec_tile_w##bits(const __grid_constant__ KernelArgs args) { \
    transform<bits / 8>(args);                                                          \
  }
EC_TILE_KERNEL(8)
EC_TILE_KERNEL(16)
EC_TILE_KERNEL(32)
EC_TILE_KERNEL(64)
EC_TILE_KERNEL(128)
