// Rungs 1 to 3. They multiply with logarithms and powers of 2 in GF(2^8), which each block copies from
// constant initialisers to shared memory: lookups of different addresses by the threads of a warp are served
// there, bank by bank.
#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"

namespace log_kernels {

using namespace ec::kernels::cuda;
using namespace ec::bench::ladder;

/// exp holds two periods, so that the sum of two logarithms needs no reduction; log[0] is not used.
struct LogTables {
  std::uint8_t exp[512];
  std::uint8_t log[256];
};

constexpr LogTables make_log_tables() {
  LogTables t{};
  unsigned x = 1;
  for (unsigned i = 0; i < 255; ++i) {
    t.exp[i] = t.exp[i + 255] = static_cast<std::uint8_t>(x);
    t.log[x] = static_cast<std::uint8_t>(i);
    x <<= 1;
    if (x & 0x100) x ^= 0x11d;
  }
  return t;
}

// Known outside of this file: else nvcc makes its name of the path that this file has where it is compiled.
extern __device__ const LogTables log_tables;
__device__ const LogTables log_tables = make_log_tables();

}  // namespace log_kernels

namespace {

using namespace log_kernels;

/// Copies the tables with all threads of the block; the caller synchronises.
__device__ void copy_log_tables(LogTables& to) {
  const unsigned threads = blockDim.x * blockDim.y;
  for (unsigned i = threadIdx.y * blockDim.x + threadIdx.x; i < 512; i += threads) {
    to.exp[i] = log_tables.exp[i];
    if (i < 256) to.log[i] = log_tables.log[i];
  }
}

__device__ std::uint8_t multiply(const LogTables& t, std::uint8_t a, std::uint8_t b) {
  return a == 0 || b == 0 ? 0 : t.exp[t.log[a] + t.log[b]];
}

/// What the parameter holds.
struct Job {
  const std::uint8_t* const* sources;
  std::uint8_t* const* targets;
  const std::uint8_t* coefficients;

  __device__ explicit Job(const KernelArgs& args)
      : sources(reinterpret_cast<const std::uint8_t* const*>(args.blob)),
        targets(reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources)),
        coefficients(args.blob + 8 * (args.sources + args.targets)) {}
};

}  // namespace

// Rung 1, naive: the textbook product. A thread computes one byte of one target, reads its k source bytes
// from global memory and multiplies. blockIdx.y is the target.
//
// This is the bottom: every source byte is read once a target (m times in all, the caches permitting), memory
// is asked for one byte a thread at a time, and each product costs three dependent lookups, whose addresses
// collide in the banks of shared memory.
extern "C" __global__ void __launch_bounds__(naive_threads)
    ec_naive(const __grid_constant__ KernelArgs args) {
  __shared__ LogTables tables;
  copy_log_tables(tables);
  __syncthreads();
  const Job job(args);
  const std::uint8_t* row = job.coefficients + blockIdx.y * args.sources;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t at = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < args.bytes; at += step) {
    std::uint8_t sum = 0;
    for (unsigned s = 0; s < args.sources; ++s) sum ^= multiply(tables, row[s], job.sources[s][at]);
    job.targets[blockIdx.y][at] = sum;
  }
}

// Rung 2, square tile: against the naive rung, the bytes that threads have in common go through shared
// memory. A block of 16 x 16 threads computes a tile of 16 targets x 16 bytes; in steps of 16 sources it
// stages 16 x 16 source bytes and 16 x 16 coefficients, and each thread adds up its byte.
//
// Expected gain: a source byte is read from memory once for 16 targets instead of once for each. Expected
// loss: codes are not square. With m = 4, twelve of sixteen rows of threads have no target; and a row of the
// tile is 16 bytes, half a sector of memory. Where the caches already serve the naive rung's repeated reads,
// the loss wins.
extern "C" __global__ void __launch_bounds__(square_side* square_side)
    ec_square_tile(const __grid_constant__ KernelArgs args) {
  constexpr unsigned side = square_side;
  __shared__ LogTables tables;
  __shared__ std::uint8_t tile[side][side];         // [source][byte]
  __shared__ std::uint8_t coefficient[side][side];  // [target][source]
  copy_log_tables(tables);
  const Job job(args);
  const unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * side + y;
  const std::uint64_t step = std::uint64_t{gridDim.x} * side;

  for (std::uint64_t base = std::uint64_t{blockIdx.x} * side; base < args.bytes; base += step) {
    const std::uint64_t at = base + x;
    std::uint8_t sum = 0;
    for (unsigned first = 0; first < args.sources; first += side) {
      __syncthreads();
      // Zeros stand in for what is outside the matrix or the chunk.
      tile[y][x] = first + y < args.sources && at < args.bytes ? job.sources[first + y][at] : 0;
      const bool inside = row < args.targets && first + x < args.sources;
      coefficient[y][x] = inside ? job.coefficients[row * args.sources + first + x] : 0;
      __syncthreads();
      for (unsigned d = 0; d < side; ++d) sum ^= multiply(tables, coefficient[y][d], tile[d][x]);
    }
    if (row < args.targets && at < args.bytes) job.targets[row][at] = sum;
  }
}

// Rung 3, rectangular tile: against the square tile, the tile takes the shape of a code: few targets, many
// bytes. A block of 64 x 4 threads computes 4 targets x 256 bytes; a thread computes 4 bytes of one target,
// 64 apart, so that a warp's fetches lie side by side.
//
// Expected gain: no idle rows for m = 4, full sectors on every fetch, and the coefficient and its logarithm
// are looked up once for four products. Codes with more targets read each source ceil(m / 4) times.
extern "C" __global__ void __launch_bounds__(rectangle_threads* rectangle_rows)
    ec_rectangular_tile(const __grid_constant__ KernelArgs args) {
  constexpr unsigned columns = rectangle_columns_per_thread;
  constexpr unsigned width = rectangle_threads * columns;
  __shared__ LogTables tables;
  __shared__ std::uint8_t tile[rectangle_depth][width];
  copy_log_tables(tables);
  const Job job(args);
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
          tile[d][x] = base + x < args.bytes ? job.sources[first + d][base + x] : 0;
        }
      __syncthreads();
      if (row >= args.targets) continue;
      for (unsigned d = 0; d < staged; ++d) {
        const std::uint8_t coefficient = job.coefficients[row * args.sources + first + d];
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
      if (at < args.bytes) job.targets[row][at] = sum[c];
    }
  }
}
