// The first device kernel: target = M . source over GF(2^8) word by word, for any matrix.
//
// Thread (x, y) of a block computes one word of rows_per_thread consecutive rows (targets), so a block has
// blockDim.x words of rows_per_thread * blockDim.y rows, both chosen at launch. The threads of a column read
// the same words of the sources, out of the first cache.
// A word holds 1, 2, 4, 8 or 16 field elements, which are multiplied together: x, 2x, 4x .. 128x are made
// once a word (shift and reduce by 0x1d) and added into each row whose coefficient has the bit. Coefficients
// are the same for all threads of a row, so the branches do not diverge. Writes each target once. The packed
// multiplication is Russian-peasant.
#include <cstdint>

#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/kernels/pack.cuh"

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
  const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args.blob);
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
  const unsigned first_row = (blockIdx.y * blockDim.y + threadIdx.y) * rows_per_thread;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x * Bytes;
  for (std::uint64_t at = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) * Bytes; at < args.bytes;
       at += step) {
    Pack<Bytes> sum[rows_per_thread] = {};
    for (unsigned s = 0; s < args.sources; ++s) {
      unsigned coefficient[rows_per_thread];
#pragma unroll
      for (unsigned r = 0; r < rows_per_thread; ++r)
        coefficient[r] = first_row + r < args.targets ? coefficients[(first_row + r) * args.sources + s] : 0;
      add_products(sum, coefficient, load<Bytes>(sources[s], at, args.bytes));
    }
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
