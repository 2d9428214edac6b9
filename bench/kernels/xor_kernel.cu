// The yardstick of the kernels: reads each source once, writes the sum of all into each target. It moves the
// bytes of a product in the access pattern of the best kernels - 16 bytes a fetch, two fetches a thread and
// source, 1024 bytes a warp - with next to no arithmetic, so that the ratio to it is what the arithmetic
// costs.
#include "bench/kernels/xor_args.hpp"

namespace {

using ec::bench::xor_tile;
using ec::bench::XorArgs;

__device__ __forceinline__ void add(uint4& sum, const uint4& x) {
  sum.x ^= x.x, sum.y ^= x.y, sum.z ^= x.z, sum.w ^= x.w;
}

template <int Sources>
__device__ __forceinline__ void sum_sources(const XorArgs& args, const std::uint64_t* chunks,
                                            std::uint64_t offset) {
  const int sources = Sources == 0 ? static_cast<int>(args.sources) : Sources;
  uint4 a{}, b{};
#pragma unroll(Sources == 0 ? 4 : Sources)
  for (int s = 0; s < sources; ++s) {
    const auto* from = reinterpret_cast<const uint4*>(chunks[s] + offset);
    add(a, __ldcs(from));
    add(b, __ldcs(from + 32));
  }
#pragma unroll 4
  for (unsigned t = 0; t < args.targets; ++t) {
    auto* to = reinterpret_cast<uint4*>(chunks[sources + t] + offset);
    __stcs(to, a);
    __stcs(to + 32, b);
  }
}

template <int Sources>
__device__ __forceinline__ void run(const XorArgs& args) {
  const std::uint64_t tiles_a_chunk = args.bytes / xor_tile, tiles = tiles_a_chunk * args.stripes;
  const unsigned warps = blockDim.x / 32;
  const std::uint64_t step = std::uint64_t{gridDim.x} * warps;
  const std::uint64_t in_tile = threadIdx.x % 32 * 16;
  for (std::uint64_t tile = std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32; tile < tiles;
       tile += step) {
    if (args.stripes == 1) {
      sum_sources<Sources>(args, args.chunks, tile * xor_tile + in_tile);
      continue;
    }
    const std::uint64_t stripe = tile / tiles_a_chunk;
    const auto* chunks =
        reinterpret_cast<const std::uint64_t*>(args.table) + stripe * (args.sources + args.targets);
    sum_sources<Sources>(args, chunks, (tile - stripe * tiles_a_chunk) * xor_tile + in_tile);
  }
}

}  // namespace

#define EC_XOR_KERNEL(k)                                                    \
  extern "C" __global__ void __launch_bounds__(ec::bench::xor_most_threads) \
      ec_xor_##k(const __grid_constant__ XorArgs args) {                    \
    run<k>(args);                                                           \
  }
EC_XOR_SOURCES(EC_XOR_KERNEL)
extern "C" __global__ void __launch_bounds__(ec::bench::xor_most_threads)
    ec_xor_any(const __grid_constant__ XorArgs args) {
  run<0>(args);
}
