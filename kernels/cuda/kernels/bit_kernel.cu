// target = M . source for any matrix, on the tensor cores, as a product of bit matrices.
//
// Over GF(2) a coefficient is an 8 x 8 bit matrix, and coding is one product of a (8 targets) x (8 sources)
// bit matrix with the bits of the data. The binary tensor-core instruction (mma .b1 with AND and population
// count) counts the ones of each inner product; the lowest bit of a count is the sum in GF(2).
//   A: the bit matrix of the code: rows are target bits, 128 or 256 columns are the bits of 16 or 32 sources.
//   B: the data as it lies: a column is one byte position, its rows the bits of the sources' bytes there.
// Lane (g, t) = (lane / 4, lane % 4) loads W words of the sources 4 q + t; a 4 x 4 byte transposition makes
// each register four sources' bytes of one position, which is what B wants. Rows are dealt so that lane group
// g ends up with all eight bits of target g (eight targets a group of four row blocks), or with half a byte
// of target g / 2 (up to four targets, two row blocks), so that the sums pack within a lane. Data is read
// once for all targets of a launch, and stays in registers: 4 W for each 16 sources. The bit matrix is made
// from the coefficients by each block, once, into shared memory. Reads and writes 16 W bytes a quarter-warp,
// contiguous over the warp (32 W bytes of every chunk). Needs compute capability 8.0 (mma.m16n8k256.b1); on
// older chips the kernel exists and traps. Shapes and what they gave: bit_args.hpp.
#include <cstdint>

#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/kernels/pack.cuh"

namespace {

using ec::kernels::cuda::KernelArgs;
using ec::kernels::cuda::pick;
using ec::kernels::cuda::sources_per_group;
using ec::kernels::cuda::targets_per_group;

constexpr unsigned threads = ec::kernels::cuda::bit_kernel_threads;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ void mma256(std::uint32_t (&c)[4], uint2 a, uint2 b, std::uint32_t x, std::uint32_t y) {
  asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y), "r"(x), "r"(y));
}
__device__ void mma128(std::uint32_t (&c)[4], uint2 a, std::uint32_t x) {
  asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(x));
}
#else
__device__ void mma256(std::uint32_t (&)[4], uint2, uint2, std::uint32_t, std::uint32_t) { __trap(); }
__device__ void mma128(std::uint32_t (&)[4], uint2, std::uint32_t) { __trap(); }
#endif

template <int W>
__device__ void load(std::uint32_t (&x)[W], const std::uint8_t* from) {
  if constexpr (W == 4) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(from));
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
  } else if constexpr (W == 2) {
    const uint2 v = __ldg(reinterpret_cast<const uint2*>(from));
    x[0] = v.x, x[1] = v.y;
  } else {
    x[0] = __ldg(reinterpret_cast<const std::uint32_t*>(from));
  }
}

template <int W, bool Accumulate>
__device__ void store(std::uint8_t* to, std::uint32_t (&x)[W]) {
  if constexpr (Accumulate) {
#pragma unroll
    for (int w = 0; w < W; ++w) x[w] ^= reinterpret_cast<const std::uint32_t*>(to)[w];
  }
  if constexpr (W == 4) *reinterpret_cast<uint4*>(to) = make_uint4(x[0], x[1], x[2], x[3]);
  if constexpr (W == 2) *reinterpret_cast<uint2*>(to) = make_uint2(x[0], x[1]);
  if constexpr (W == 1) *reinterpret_cast<std::uint32_t*>(to) = x[0];
}

/// Row `bit` of the bit matrix of c: bit j says whether bit j of the source byte goes into bit `bit` of the
/// product.
__device__ std::uint32_t bit_row(std::uint32_t c, unsigned bit) {
  std::uint32_t row = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    row |= (c >> bit & 1) << j;
    c = c << 1 ^ (c >> 7) * 0x11d;
  }
  return row;
}

/// The words of A as the lanes hold them: fragments[(block * groups + group) * 32 + lane], two words each.
__device__ void make_fragments(const KernelArgs& args, unsigned groups, unsigned row_blocks,
                               std::uint32_t* words) {
  const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
  const unsigned full = args.targets / targets_per_group + (args.targets % targets_per_group > 4);
  for (unsigned i = threadIdx.x; i < row_blocks * groups * 64; i += blockDim.x) {
    const unsigned half_bit = i % 2;
    const unsigned lane = i / 2 % 32;
    const unsigned group = i / 64 % groups;
    const unsigned block = i / 64 / groups;
    const unsigned g = lane / 4;
    const bool in_half = block >= 4 * full;
    const unsigned target = in_half ? full * 8 + g / 2 : block / 4 * 8 + g;
    const unsigned bit = (in_half ? 4 * (g % 2) : 0) + 2 * (block % 4) + half_bit;
    std::uint32_t word = 0;
    for (unsigned q = 0; q < 4; ++q) {
      const unsigned source = (4 * group + q) * 4 + lane % 4;
      if (source < args.sources && target < args.targets)
        word |= bit_row(coefficients[target * args.sources + source], bit) << (8 * q);
    }
    words[i] = word;
  }
}

/// The lowest bits of four counts as the lowest bits of four bytes; other bits are anything.
__device__ std::uint32_t parities(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3) {
  return pick(0x00ff00ff, c0 + c2 * 0x10000u, c1 * 0x100u + c3 * 0x1000000u);
}

/// Blocks row blocks: out[j][w] gets, bit by bit, the sums of the rows dealt to this lane.
template <int Blocks, int Groups, int W>
__device__ void rows(std::uint32_t (&out)[2][W], const std::uint32_t (&b)[Groups][4 * W],
                     const uint2* fragment) {
#pragma unroll
  for (int w = 0; w < W; ++w) out[0][w] = out[1][w] = 0;
#pragma unroll
  for (int block = Blocks - 1; block >= 0; --block) {
    uint2 a[Groups];
#pragma unroll
    for (int i = 0; i < Groups; ++i) a[i] = fragment[(block * Groups + i) * 32];
#pragma unroll
    for (int w = 0; w < W; ++w) {
      std::uint32_t c[4][4] = {};
#pragma unroll
      for (int i = 0; i + 1 < Groups; i += 2)
#pragma unroll
        for (int n = 0; n < 4; ++n) mma256(c[n], a[i], a[i + 1], b[i][4 * w + n], b[i + 1][4 * w + n]);
      if constexpr (Groups % 2 == 1)
#pragma unroll
        for (int n = 0; n < 4; ++n) mma128(c[n], a[Groups - 1], b[Groups - 1][4 * w + n]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        out[j][w] =
            pick(0x01010101, parities(c[0][2 + j], c[1][2 + j], c[2][2 + j], c[3][2 + j]), out[j][w] * 2);
        out[j][w] = pick(0x01010101, parities(c[0][j], c[1][j], c[2][j], c[3][j]), out[j][w] * 2);
      }
    }
  }
}

/// The bytes of four sources a register, for each byte position of the lane.
template <int Quads, int W>
__device__ void gather(std::uint32_t (&b)[(Quads + 3) / 4][4 * W], const std::uint8_t* const* sources,
                       unsigned count, std::uint64_t offset, unsigned t) {
  constexpr int full = ec::kernels::cuda::full_quads(Quads);
#pragma unroll
  for (int i = 0; i < (Quads + 3) / 4; ++i) {
    std::uint32_t x[4][W];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int quad = 4 * i + q;
      const unsigned s = quad * 4 + t;
#pragma unroll
      for (int w = 0; w < W; ++w) x[q][w] = 0;
      if (quad < full || (quad < Quads && s < count)) load<W>(x[q], sources[s] + offset);
    }
#pragma unroll
    for (int w = 0; w < W; ++w) {
      const std::uint32_t l0 = __byte_perm(x[0][w], x[1][w], 0x5140);
      const std::uint32_t l1 = __byte_perm(x[2][w], x[3][w], 0x5140);
      const std::uint32_t h0 = __byte_perm(x[0][w], x[1][w], 0x7362);
      const std::uint32_t h1 = __byte_perm(x[2][w], x[3][w], 0x7362);
      b[i][4 * w] = __byte_perm(l0, l1, 0x5410);
      b[i][4 * w + 1] = __byte_perm(l0, l1, 0x7632);
      b[i][4 * w + 2] = __byte_perm(h0, h1, 0x5410);
      b[i][4 * w + 3] = __byte_perm(h0, h1, 0x7632);
    }
  }
}

/// Half: up to four targets. Otherwise any number.
template <int Quads, int W, bool Half, bool Accumulate>
__device__ void transform(const KernelArgs& args) {
  constexpr int Groups = (Quads + 3) / 4;
  extern __shared__ uint2 shared[];
  const unsigned full = Half ? 0 : args.targets / targets_per_group + (args.targets % targets_per_group > 4);
  const unsigned row_blocks = Half ? 2 : ec::kernels::cuda::row_blocks_of(args.targets);
  auto** sources = reinterpret_cast<const std::uint8_t**>(shared + row_blocks * Groups * 32);
  auto** targets = const_cast<std::uint8_t**>(sources) + sources_per_group * Groups;
  make_fragments(args, Groups, row_blocks, reinterpret_cast<std::uint32_t*>(shared));
  const auto* addresses = reinterpret_cast<std::uint8_t* const*>(args.blob);
  for (unsigned i = threadIdx.x; i < args.sources; i += blockDim.x) sources[i] = addresses[i];
  for (unsigned i = threadIdx.x; i < args.targets; i += blockDim.x) targets[i] = addresses[args.sources + i];
  __syncthreads();

  const unsigned lane = threadIdx.x % 32;
  const unsigned g = lane / 4;
  const unsigned t = lane % 4;
  const unsigned piece = (g % 2) * 4 + g / 2;
  const std::uint64_t step = std::uint64_t{gridDim.x} * (threads / 32);
  for (std::uint64_t tile = std::uint64_t{blockIdx.x} * (threads / 32) + threadIdx.x / 32; tile < args.bytes;
       tile += step) {
    const std::uint64_t offset = tile * (32 * W);
    std::uint32_t b[Groups][4 * W];
    gather<Quads, W>(b, sources, args.sources, offset + piece * 4 * W, t);
    std::uint32_t out[2][W];
    if constexpr (!Half) {
#pragma unroll 1
      for (unsigned group = 0; group < full; ++group) {
        rows<4, Groups, W>(out, b, shared + group * 4 * Groups * 32 + lane);
        const unsigned target = group * targets_per_group + g;
        if (target < args.targets) {
          std::uint8_t* to = targets[target] + offset;
          store<W, Accumulate>(to + t * 4 * W, out[0]);
          store<W, Accumulate>(to + (4 + t) * 4 * W, out[1]);
        }
      }
    }
    if (row_blocks == 4 * full) continue;
    rows<2, Groups, W>(out, b, shared + full * 4 * Groups * 32 + lane);
    // Two lane groups hold the halves of a target's bytes: they swap, and each stores half the positions.
    const bool odd = g % 2 != 0;
    std::uint32_t mine[W];
#pragma unroll
    for (int w = 0; w < W; ++w) {
      const std::uint32_t other = __shfl_xor_sync(0xffffffff, odd ? out[0][w] : out[1][w], 4);
      mine[w] = (odd ? other : out[0][w]) + (odd ? out[1][w] : other) * 16;
    }
    const unsigned target = full * targets_per_group + g / 2;
    if (target < args.targets) store<W, Accumulate>(targets[target] + offset + (odd * 4 + t) * 4 * W, mine);
  }
}

/// Two bodies: a choice at every store would keep the compiler from mixing stores with what follows.
template <int Quads, int W, bool Half>
__device__ void run(const KernelArgs& args) {
  if (args.accumulate)
    transform<Quads, W, Half, true>(args);
  else
    transform<Quads, W, Half, false>(args);
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
      ec_bits_q##quads##_half(const __grid_constant__ KernelArgs args) {             \
    run<quads, words, true>(args);                                                   \
  }                                                                                  \
  extern "C" __global__ void __launch_bounds__(threads, EC_BIT_BLOCKS(any_blocks))   \
      ec_bits_q##quads##_any(const __grid_constant__ KernelArgs args) {              \
    run<quads, words, false>(args);                                                  \
  }
EC_BIT_SHAPES(EC_BIT_KERNELS)
