// target = M . source for any matrix, on the tensor cores (bits.cuh).
#include "kernels/cuda/kernels/bits.cuh"

namespace {

/// Two bodies: a choice at every store would keep the compiler from mixing stores with the code behind them.
template <int Quads, int W, bool Half, int Waves>
__device__ void run(const KernelArgs& args) {
  constexpr int full = ec::kernels::cuda::full_quads(Quads);
  if (args.accumulate)
    transform<1, Quads, full, W, Waves, Half ? 2 : 3, true>(args);
  else
    transform<1, Quads, full, W, Waves, Half ? 2 : 3, false>(args);
}

}  // namespace

// For other chips the compiler needs a few registers more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define EC_BIT_BLOCKS(blocks) (blocks)
#else
#define EC_BIT_BLOCKS(blocks) ((blocks) > 4 ? (blocks) - ((blocks) + 3) / 4 : (blocks))
#endif
#define EC_BIT_KERNELS(quads, words, half_blocks, half_waves, any_blocks, any_waves) \
  extern "C" __global__ void __launch_bounds__(threads, EC_BIT_BLOCKS(half_blocks))  \
      ec_bits_p0_q##quads##_h1(const __grid_constant__ KernelArgs args) {            \
    run<quads, words, true, half_waves>(args);                                       \
  }                                                                                  \
  extern "C" __global__ void __launch_bounds__(threads, EC_BIT_BLOCKS(any_blocks))   \
      ec_bits_p0_q##quads##_h0(const __grid_constant__ KernelArgs args) {            \
    run<quads, words, false, any_waves>(args);                                       \
  }
EC_BIT_SHAPES(EC_BIT_KERNELS)
