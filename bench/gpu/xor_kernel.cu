// The yardstick of the kernels: reads each source once, writes the sum of all into each target. It moves the
// bytes of a product in the access pattern of the best kernels - 16 bytes a fetch, two fetches a thread and
// source, 1024 bytes a warp - with next to no arithmetic, so that the ratio to it is what the arithmetic
// costs.
#include "bench/gpu/xor_args.hpp"

namespace {

using ec::bench::xor_tile;
using ec::bench::XorArgs;

__device__ __forceinline__ void add(uint4& sum, const uint4& x) {
  sum.x ^= x.x, sum.y ^= x.y, sum.z ^= x.z, sum.w ^= x.w;
}

template <int Sources>
__device__ __forceinline__ void run(const XorArgs& args) {
  const int sources = Sources == 0 ? static_cast<int>(args.sources) : Sources;
  const unsigned warps = blockDim.x / 32;
  const std::uint64_t step = std::uint64_t{gridDim.x} * warps * xor_tile;
  std::uint64_t at =
      (std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32) * xor_tile + threadIdx.x % 32 * 16;
  for (; at < args.bytes; at += step) {
    uint4 a{}, b{};
#pragma unroll(Sources == 0 ? 4 : Sources)
    for (int s = 0; s < sources; ++s) {
      const auto* from = reinterpret_cast<const uint4*>(args.chunks[s] + at);
      add(a, __ldcs(from));
      add(b, __ldcs(from + 32));
    }
#pragma unroll 4
    for (unsigned t = 0; t < args.targets; ++t) {
      auto* to = reinterpret_cast<uint4*>(args.chunks[sources + t] + at);
      __stcs(to, a);
      __stcs(to + 32, b);
    }
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
