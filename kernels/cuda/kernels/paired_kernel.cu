// target = M . source for paired matrices, on the tensor cores (bits.cuh). The parameter has the coefficients
// of every 2^pairs-th row alone: the rows of the first class.
#include "kernels/cuda/kernels/bits.cuh"

// For other chips the compiler needs a few registers more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define EC_PAIRED_BLOCKS(blocks) (blocks)
#else
#define EC_PAIRED_BLOCKS(blocks) ((blocks) > 2 ? (blocks)-1 : (blocks))
#endif
#define EC_PAIRED_KERNEL(pairs, quads, words, half, blocks)                            \
  extern "C" __global__ void __launch_bounds__(threads, EC_PAIRED_BLOCKS(blocks))      \
      ec_bits_p##pairs##_q##quads##_h##half(const __grid_constant__ KernelArgs args) { \
    transform<1 << pairs, quads, 0, words, 1, half * 2, false>(args);                  \
  }
EC_PAIRED_SHAPES(EC_PAIRED_KERNEL)
