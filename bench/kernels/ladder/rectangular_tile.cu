// Rung 3, rectangular tile: against the square tile, the tile takes the shape of a code: few targets, many
// bytes. A block of 64 x 4 threads computes 4 targets x 256 bytes; a thread computes 4 bytes of one target,
// 64 apart, so that a warp's fetches lie side by side.
//
// Expected gain: no idle rows for m = 4, full sectors on every fetch, and the coefficient and its logarithm
// are looked up once for four products. Codes with more targets read each source ceil(m / 4) times.
#include "bench/kernels/ladder/log_tables.cuh"
#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"

using namespace ec::kernels::cuda;
using namespace ec::bench::ladder;

extern "C" __global__ void __launch_bounds__(rectangle_threads* rectangle_rows)
    ec_rectangular_tile(const __grid_constant__ TileArgs args) {
  constexpr unsigned columns = rectangle_columns_per_thread;
  constexpr unsigned width = rectangle_threads * columns;
  __shared__ LogTables tables;
  __shared__ std::uint8_t tile[rectangle_depth][width];
  copy_log_tables(tables);
  const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args.blob);
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
  const unsigned row = blockIdx.y * rectangle_rows + threadIdx.y;
  const std::uint64_t step = std::uint64_t{gridDim.x} * width;

  for (std::uint64_t base = std::uint64_t{blockIdx.x} * width; base < args.bytes; base += step) {
    std::uint8_t sum[columns] = {};
    for (unsigned first = 0; first < args.sources; first += rectangle_depth) {
      const unsigned staged = min(rectangle_depth, args.sources - first);
      __syncthreads();
      for (unsigned d = threadIdx.y; d < staged; d += rectangle_rows)
#pragma unroll
        for (unsigned c = 0; c < columns; ++c) {
          const unsigned x = c * rectangle_threads + threadIdx.x;
          tile[d][x] = base + x < args.bytes ? sources[first + d][base + x] : 0;
        }
      __syncthreads();
      if (row >= args.targets) continue;
      for (unsigned d = 0; d < staged; ++d) {
        const std::uint8_t coefficient = coefficients[row * args.sources + first + d];
        if (coefficient == 0) continue;
        const unsigned logarithm = tables.log[coefficient];
#pragma unroll
        for (unsigned c = 0; c < columns; ++c) {
          const std::uint8_t b = tile[d][c * rectangle_threads + threadIdx.x];
          if (b != 0) sum[c] ^= tables.exp[logarithm + tables.log[b]];
        }
      }
    }
    if (row >= args.targets) continue;
#pragma unroll
    for (unsigned c = 0; c < columns; ++c) {
      const std::uint64_t at = base + c * rectangle_threads + threadIdx.x;
      if (at < args.bytes) targets[row][at] = sum[c];
    }
  }
}
