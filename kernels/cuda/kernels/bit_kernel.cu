// target = M . source for any matrix, on the tensor cores (bits.cuh).
#include "kernels/cuda/kernels/bits.cuh"

namespace {

/// Two bodies: a choice at every store would keep the compiler from mixing stores with the code behind them.
template <int Quads, int W, bool Half>
__device__ void run(const KernelArgs& args) {
  constexpr int full = ec::kernels::cuda::full_quads(Quads);
  if (args.accumulate)
    transform<1, Quads, full, W, Half ? 2 : 3, true>(args);
  else
    transform<1, Quads, full, W, Half ? 2 : 3, false>(args);
}

}  // namespace

#define EC_BIT_KERNELS(quads, words, half_warps, any_warps)               \
  extern "C" __global__ void EC_BIT_BOUNDS(half_warps)                    \
      ec_bits_p0_q##quads##_h1(const __grid_constant__ KernelArgs args) { \
    run<quads, words, true>(args);                                        \
  }                                                                       \
  extern "C" __global__ void EC_BIT_BOUNDS(any_warps)                     \
      ec_bits_p0_q##quads##_h0(const __grid_constant__ KernelArgs args) { \
    run<quads, words, false>(args);                                       \
  }
EC_BIT_SHAPES(EC_BIT_KERNELS)
