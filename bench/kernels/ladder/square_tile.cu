// Rung 2, square tile: against the naive rung, the bytes that threads have in common go through shared
// memory. A block of 16 x 16 threads computes a tile of 16 targets x 16 bytes; in steps of 16 sources it
// stages 16 x 16 source bytes and 16 x 16 coefficients, and each thread adds up its byte.
//
// Expected gain: a source byte is read from memory once for 16 targets instead of once for each. Expected
// loss: codes are not square. With m = 4, twelve of sixteen rows of threads have no target; and a row of the
// tile is 16 bytes, half a sector of memory. Where the caches already serve the naive rung's repeated reads,
// the loss wins.
#include "bench/kernels/ladder/log_tables.cuh"
#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"

using namespace ec::kernels::cuda;
using namespace ec::bench::ladder;

extern "C" __global__ void __launch_bounds__(square_side* square_side)
    ec_square_tile(const __grid_constant__ TileArgs args) {
  constexpr unsigned side = square_side;
  __shared__ LogTables tables;
  __shared__ std::uint8_t tile[side][side];         // [source][byte]
  __shared__ std::uint8_t coefficient[side][side];  // [target][source]
  copy_log_tables(tables);
  const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args.blob);
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
  const unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * side + y;
  const std::uint64_t step = std::uint64_t{gridDim.x} * side;

  for (std::uint64_t base = std::uint64_t{blockIdx.x} * side; base < args.bytes; base += step) {
    const std::uint64_t at = base + x;
    std::uint8_t sum = 0;
    for (unsigned first = 0; first < args.sources; first += side) {
      __syncthreads();
      // Zeros stand in for what is outside the matrix or the chunk.
      tile[y][x] = first + y < args.sources && at < args.bytes ? sources[first + y][at] : 0;
      coefficient[y][x] =
          row < args.targets && first + x < args.sources ? coefficients[row * args.sources + first + x] : 0;
      __syncthreads();
      for (unsigned d = 0; d < side; ++d) sum ^= multiply(tables, coefficient[y][d], tile[d][x]);
    }
    if (row < args.targets && at < args.bytes) targets[row][at] = sum;
  }
}
