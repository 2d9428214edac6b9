// Rung 1, naive: the textbook product. A thread computes one byte of one target, reads its k source bytes
// from global memory and multiplies with logarithms and powers held in shared memory. blockIdx.y is the
// target.
//
// This is the bottom: every source byte is read once a target (m times in all, the caches permitting), memory
// is asked for one byte a thread at a time, and each product costs three dependent lookups, whose addresses
// collide in the banks of shared memory.
#include "bench/kernels/ladder/log_tables.cuh"
#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"

using namespace ec::kernels::cuda;
using namespace ec::bench::ladder;

extern "C" __global__ void __launch_bounds__(naive_threads) ec_naive(const __grid_constant__ TileArgs args) {
  __shared__ LogTables tables;
  copy_log_tables(tables);
  __syncthreads();
  const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args.blob);
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const std::uint8_t* row = args.blob + 8 * (args.sources + args.targets) + blockIdx.y * args.sources;
  std::uint8_t* target = targets[blockIdx.y];
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t at = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < args.bytes; at += step) {
    std::uint8_t sum = 0;
    for (unsigned s = 0; s < args.sources; ++s) sum ^= multiply(tables, row[s], sources[s][at]);
    target[at] = sum;
  }
}
