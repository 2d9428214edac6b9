// target = M . source for paired matrices, on the tensor cores (bits.cuh). The parameter has the coefficients
// of every 2^pairs-th row alone: the rows of the first class.
#include "kernels/cuda/kernels/bits.cuh"

#define EC_PAIRED_KERNEL(pairs, quads, words, half, warps)                             \
  extern "C" __global__ void EC_BIT_BOUNDS(warps)                                      \
      ec_bits_p##pairs##_q##quads##_h##half(const __grid_constant__ KernelArgs args) { \
    transform<1 << pairs, quads, 0, words, half * 2, false>(args);                     \
  }
EC_PAIRED_SHAPES(EC_PAIRED_KERNEL)
