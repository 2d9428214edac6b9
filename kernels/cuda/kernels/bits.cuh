// target = M . source on the tensor cores, as a product of bit matrices: device code of bit_kernel.cu and
// paired_kernel.cu.
//
// Over GF(2) a coefficient is an 8 x 8 bit matrix, and coding is one product of a (8 targets) x (8 sources)
// bit matrix with the bits of the data. The binary tensor-core instruction (mma .b1 with AND and population
// count) counts the ones of each inner product; the lowest bit of a count is the sum in GF(2).
//   A: the bit matrix of the code: rows are target bits, 128 or 256 columns are the bits of 16 or 32 sources.
//   B: the data as it lies: a column is one byte position, its rows the bits of the sources' bytes there.
// Lane (g, t) = (lane / 4, lane % 4) loads W words of the sources 4 q + t; a 4 x 4 byte transposition makes
// each register four sources' bytes of one position, the layout of B. Rows are dealt so that the sums pack
// within a lane. Lane group g ends up with all eight bits of target g (eight targets, four row blocks), with
// half a byte of target g / 2 (up to four targets, two row blocks), or with six bits of target g, the upper
// bits of three targets each in groups 6 and 7 (up to six targets, three row blocks). Data is read once for
// all targets of a launch, and stays in registers: 4 W for each 16 sources, and as many for the next tile of
// codes of few sources. The bit matrix is made from the coefficients by each block, once, into shared memory.
// Reads and writes 16 W bytes a quarter-warp, contiguous over the warp (32 W bytes of every chunk). Needs
// compute capability 8.0 (mma.m16n8k256.b1); on older chips the kernel exists and traps. Shapes and their
// speeds: bit_args.hpp.
//
// A paired matrix has M(r ^ h, c ^ h) = M(r, c) for h below 2^p, p being 1 to 3: a Cauchy matrix whose cells
// are 1 / (row + column) and whose rows and columns begin at multiples of 2^p. The lowest p bits part rows
// and columns into 2^p classes, and the sub-matrix of two classes depends on their XOR alone. So the product
// is one in the group algebra of (Z/2)^p. In characteristic 2 this is the algebra of polynomials in p
// variables whose squares are 0. So, for sets of bits s, t below 2^p, with
//   a(t) = sum of the sub-matrices of all s that contain t, b(t) = sum of the sources of all such classes,
//   c(t) = sum over the subsets z of t of a(t - z) b(z),
// class t of the targets is the sum of all c(s), s containing t: 3^p products of sub-matrices for 4^p. Sums
// are XORs of whole words. With p = 0 all this is nothing, and any matrix will do.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/kernels/pack.cuh"

// Not in the nameless namespace: nvcc would name it by the path of this file on the machine that compiles it.
extern __shared__ uint2 shared[];

namespace {

using ec::kernels::cuda::KernelArgs;
using ec::kernels::cuda::pick;
using ec::kernels::cuda::row_blocks_of;
using ec::kernels::cuda::sources_per_group;
using ec::kernels::cuda::targets_per_group;

/// The second cache fetches for other warps too: a warp's load from a chunk is one cache line or less (H100,
/// 64+16, two words: 0.91 of the copy, 0.69 without; 16+4, four words: 0.95, 0.94 without).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define EC_FETCH "L2::256B."
#define EC_MMA(...) asm("mma.sync.aligned.m16n8" __VA_ARGS__)
#else
#define EC_FETCH
#define EC_MMA(...) __trap()
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define EC_BIT_BOUNDS(n)                                                           \
  __launch_bounds__(ec::kernels::cuda::BitBlock(n, __CUDA_ARCH__ / 100).threads(), \
                    ec::kernels::cuda::BitBlock(n, __CUDA_ARCH__ / 100).blocks)
#else
#define EC_BIT_BOUNDS(n)
#endif

__device__ void mma256(std::uint32_t (&c)[4], uint2 a, uint2 b, std::uint32_t x, std::uint32_t y) {
  EC_MMA("k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
         : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
         : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y), "r"(x), "r"(y));
}
__device__ void mma128(std::uint32_t (&c)[4], uint2 a, std::uint32_t x) {
  EC_MMA("k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
         : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
         : "r"(a.x), "r"(a.y), "r"(x));
}

template <int W>
__device__ void load(std::uint32_t (&x)[W], const std::uint8_t* from) {
  if constexpr (W == 4)
    asm volatile("ld.global.nc." EC_FETCH "v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(from));
  else
    asm volatile("ld.global.nc." EC_FETCH "v2.u32 {%0,%1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "l"(from));
}

template <int W, bool Accumulate>
__device__ void store(std::uint8_t* to, const std::uint32_t (&x)[W]) {
  ec::kernels::cuda::Pack<4 * W> words{};
  if constexpr (Accumulate) words = ec::kernels::cuda::load_whole<4 * W>(to);
#pragma unroll
  for (int w = 0; w < W; ++w) words.lane[w] ^= x[w];
  ec::kernels::cuda::store_whole(to, words);
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

/// The words of A in the order of the lanes: fragments[((block * classes + class) * groups + group) * 32 +
/// lane], two words each. rows, columns: of a sub-matrix; full: groups of eight rows, whose row blocks come
/// first; RestBlocks: of transform().
template <unsigned Classes, int RestBlocks>
__device__ void make_fragments(const KernelArgs& args, unsigned rows, unsigned columns, unsigned groups,
                               unsigned full, unsigned row_blocks, std::uint32_t* words) {
  const std::uint8_t* coefficients = args.blob + 8 * (args.sources + args.targets);
  for (unsigned i = threadIdx.x; i < row_blocks * Classes * groups * 64; i += blockDim.x) {
    const unsigned half_bit = i % 2;
    const unsigned lane = i / 2 % 32;
    const unsigned group = i / 64 % groups;
    const unsigned part = i / 64 / groups % Classes;
    const unsigned block = i / 64 / groups / Classes;
    const unsigned g = lane / 4;
    const unsigned first = block / 4 * targets_per_group;
    unsigned row = first + g, bit = 2 * (block % 4) + half_bit;
    if (RestBlocks == 2) row = g / 2, bit += 4 * (g % 2);
    if (RestBlocks == 3 && block >= 4 * full && g >= 6)
      row = first + 3 * (g - 6) + bit / 2, bit = 6 + half_bit;
    std::uint32_t word = 0;
    for (unsigned q = 0; q < 4; ++q) {
      const unsigned column = (4 * group + q) * 4 + lane % 4;
      if (column >= columns || row >= rows) continue;
      std::uint32_t cell = 0;
      for (unsigned s = part; s < Classes; s = (s + 1) | part)
        cell ^= coefficients[row * args.sources + column * Classes + s];
      word |= bit_row(cell, bit) << (8 * q);
    }
    words[i] = word;
  }
}

/// The lowest bits of four counts as the lowest bits of four bytes; other bits are anything. Small counts are
/// below 256.
template <bool Small>
__device__ std::uint32_t parities(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3) {
  if constexpr (Small) return c0 + c1 * 0x100u + c2 * 0x10000u + c3 * 0x1000000u;
  return pick(0x00ff00ff, c0 + c2 * 0x10000u, c1 * 0x100u + c3 * 0x1000000u);
}

/// The n-th subset of `set`, which is below 8, and the number of subsets.
__host__ __device__ constexpr unsigned subset(unsigned set, unsigned n) {
  unsigned chosen = 0;
  for (unsigned bit = 1; bit <= set; bit *= 2)
    if (set & bit) chosen |= n % 2 * bit, n /= 2;
  return chosen;
}
__host__ __device__ constexpr int subsets(unsigned set) { return 1 << (set % 2 + set / 2 % 2 + set / 4); }

/// part[t] becomes the sum of all part[s], s containing t.
template <int Classes, class Part, class Add>
__device__ void add_supersets(Part (&part)[Classes], const Add& add) {
#pragma unroll
  for (int bit = 1; bit < Classes; bit *= 2)
#pragma unroll
    for (int t = 0; t < Classes; ++t)
      if ((t & bit) == 0) add(part[t], part[t | bit]);
}
template <int N, int M>
__device__ void add_words(std::uint32_t (&to)[N][M], const std::uint32_t (&from)[N][M]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < M; ++j) to[i][j] ^= from[i][j];
}

/// Blocks row blocks: out[t][j][w] gets, bit by bit, the sums of the rows of class t dealt to this lane.
template <int Blocks, int Classes, int Groups, int W>
__device__ void rows(std::uint32_t (&out)[Classes][2][W], const std::uint32_t (&b)[Classes][Groups][4 * W],
                     const uint2* fragment) {
#pragma unroll
  for (int t = 0; t < Classes; ++t)
#pragma unroll
    for (int w = 0; w < W; ++w) out[t][0][w] = out[t][1][w] = 0;
#pragma unroll
  for (int block = Blocks - 1; block >= 0; --block) {
    uint2 a[Classes][Groups];
#pragma unroll
    for (int t = 0; t < Classes; ++t)
#pragma unroll
      for (int i = 0; i < Groups; ++i) a[t][i] = fragment[((block * Classes + t) * Groups + i) * 32];
#pragma unroll
    for (int w = 0; w < W; ++w)
#pragma unroll
      for (int t = 0; t < Classes; ++t) {
        std::uint32_t c[4][4] = {};
        const int terms = subsets(t) * Groups;
        // As many turns for each t: the compiler unrolls no others.
#pragma unroll
        for (int k = 0; k < Classes * Groups; k += 2) {
          if (k >= terms) continue;
          const unsigned y = subset(t, k / Groups), z = subset(t, (k + 1) / Groups);
          const int i = k % Groups, j = (k + 1) % Groups;
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            if (k + 1 < terms)
              mma256(c[n], a[t ^ y][i], a[t ^ z][j], b[y][i][4 * w + n], b[z][j][4 * w + n]);
            else
              mma128(c[n], a[t ^ y][i], b[y][i][4 * w + n]);
          }
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          constexpr bool small = Classes * Groups == 1;
          std::uint32_t& sum = out[t][j][w];
#pragma unroll
          for (int i = 2 + j; i >= 0; i -= 2)
            sum = pick(0x01010101, parities<small>(c[0][i], c[1][i], c[2][i], c[3][i]), sum * 2);
        }
      }
  }
  add_supersets(out, add_words<2, W>);
}

/// A lane's words of the sources of group k % groups of class k / groups; zeros for sources that a code
/// lacks. columns: the sub-matrix's columns, of which every code of the shape has FullQuads quads.
template <int Classes, int Quads, int FullQuads, int W>
__device__ void fetch(std::uint32_t (&x)[4][W], const std::uint8_t* const* sources, unsigned columns,
                      std::uint64_t offset, unsigned t, int k) {
  const int part = k / ((Quads + 3) / 4), i = k % ((Quads + 3) / 4);
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int quad = 4 * i + q;
    const unsigned s = quad * 4 + t;
#pragma unroll
    for (int w = 0; w < W; ++w) x[q][w] = 0;
    if (quad < FullQuads || (quad < Quads && s < columns))
      load<W>(x[q], sources[s * Classes + part] + offset);
  }
}
/// The bytes of four sources a register, for each byte position.
template <int W>
__device__ void transpose(std::uint32_t (&b)[4 * W], const std::uint32_t (&x)[4][W]) {
#pragma unroll
  for (int w = 0; w < W; ++w) {
    const std::uint32_t l0 = __byte_perm(x[0][w], x[1][w], 0x5140);
    const std::uint32_t l1 = __byte_perm(x[2][w], x[3][w], 0x5140);
    const std::uint32_t h0 = __byte_perm(x[0][w], x[1][w], 0x7362);
    const std::uint32_t h1 = __byte_perm(x[2][w], x[3][w], 0x7362);
    b[4 * w] = __byte_perm(l0, l1, 0x5410);
    b[4 * w + 1] = __byte_perm(l0, l1, 0x7632);
    b[4 * w + 2] = __byte_perm(h0, h1, 0x5410);
    b[4 * w + 3] = __byte_perm(h0, h1, 0x7632);
  }
}

/// RestBlocks: the row blocks of a rest of rows of a class behind the groups of eight. 0: none, the last
/// group may have less than eight; 2: up to four rows, and no groups; 3: up to six rows.
template <int Classes, int Quads, int FullQuads, int W, int RestBlocks, bool Accumulate>
__device__ void transform(const KernelArgs& args) {
  constexpr int Groups = (Quads + 3) / 4;
  constexpr bool Eights = RestBlocks != 2;
  const unsigned row_count = args.targets / Classes, columns = args.sources / Classes;
  const unsigned rest = row_count % targets_per_group;
  const unsigned full = Eights ? row_count / targets_per_group + (rest > 2 * RestBlocks) : 0;
  const unsigned row_blocks = Eights ? row_blocks_of(row_count, RestBlocks) : 2;
  auto** sources = reinterpret_cast<const std::uint8_t**>(shared + row_blocks * Classes * Groups * 32);
  auto** targets = const_cast<std::uint8_t**>(sources) + sources_per_group * Classes * Groups;
  make_fragments<Classes, RestBlocks>(args, row_count, columns, Groups, full, row_blocks,
                                      reinterpret_cast<std::uint32_t*>(shared));
  const auto* addresses = reinterpret_cast<std::uint8_t* const*>(args.blob);
  for (unsigned i = threadIdx.x; i < args.sources; i += blockDim.x) sources[i] = addresses[i];
  for (unsigned i = threadIdx.x; i < args.targets; i += blockDim.x) targets[i] = addresses[args.sources + i];
  __shared__ unsigned drawn;  // turns of in_a_row tiles that warps of this block have begun
  if (threadIdx.x == 0) drawn = blockDim.x / 32;
  __syncthreads();

  const unsigned lane = threadIdx.x % 32;
  const unsigned g = lane / 4;
  const unsigned t = lane % 4;
  // Columns 2 t and 2 t + 1 of B become the lane's. Columns of less than 16 bytes together lie side by side
  // and are stored at once; else the lanes of a target store their first columns together.
  constexpr bool together = W < 4;
  const unsigned piece = together ? g : (g % 2) * 4 + g / 2;
  // With few sources, the sources of the next tile come while a warp multiplies this one. H100, kernels by
  // themselves, chunks of 51 and 60 MB: 16+5 0.94 of the copy, 0.87 without. See EC_BIT_SHAPES.
  constexpr bool ahead = Classes == 1 && Quads <= (Eights ? 5 : 4);
  // Then a warp's tiles lie side by side, four at a time (H200, 16+8 0.85, one at a time 0.72), but not where
  // there are fewer tiles than threads, 32 a warp: warps that get four more than others are late.
  const unsigned in_a_row = ahead && args.bytes >= gridDim.x * blockDim.x ? 4 : 1;
  // Warps of a multiprocessor go ahead of others, so each draws its next tiles. Bytes that the second cache
  // fetches at once are for one block (H200, 32+8 0.86, else 0.77).
  constexpr unsigned neighbours = 8 / W;
  const auto tile_of = [&](unsigned turn) {
    const unsigned group = turn / neighbours * gridDim.x + blockIdx.x;
    return (group * neighbours + turn % neighbours) * in_a_row;
  };
  const auto following = [&](unsigned tile) {
    if ((++tile & (in_a_row - 1)) != 0) return tile;
    unsigned turn = 0;
    if (lane == 0) turn = atomicAdd(&drawn, 1u);
    return tile_of(__shfl_sync(0xffffffff, turn, 0));
  };
  std::uint32_t x[Classes * Groups][4][W] = {};
  // Ahead, no load depends on a branch: where a code lacks a source, its last one comes again, for which the
  // matrix has no bits. Addresses stay in registers (H200, two runs, 20+6 0.82, else 0.72).
  const std::uint8_t* from[Quads];
#pragma unroll
  for (int quad = 0; quad < (ahead ? Quads : 0); ++quad)
    from[quad] = sources[min(quad * 4 + t, columns - 1)] + piece * 4 * W;
  const auto fetch_ahead = [&](unsigned tile) {
    if (tile >= args.bytes) return;
#pragma unroll
    for (int quad = 0; quad < (ahead ? Quads : 0); ++quad)
      load<W>(x[quad / 4][quad % 4], from[quad] + std::uint64_t{tile} * (32 * W));
  };
  unsigned tile = tile_of(threadIdx.x / 32);
  fetch_ahead(tile);
  for (unsigned next; tile < args.bytes; tile = next) {
    next = following(tile);
    const std::uint64_t offset = std::uint64_t{tile} * (32 * W);
    std::uint32_t b[Classes][Groups][4 * W];
#pragma unroll
    for (int k = 0; k < Classes * Groups; ++k) {
      if constexpr (!ahead)
        fetch<Classes, Quads, FullQuads, W>(x[k], sources, columns, offset + piece * 4 * W, t, k);
      transpose<W>(b[k / Groups][k % Groups], x[k]);
    }
    fetch_ahead(next);
    add_supersets(b, add_words<Groups, 4 * W>);
    std::uint32_t out[Classes][2][W];
    if constexpr (Eights) {
#pragma unroll 1
      for (unsigned group = 0; group * targets_per_group < row_count; ++group) {
        const uint2* fragment = shared + group * 4 * Classes * Groups * 32 + lane;
        if (RestBlocks == 0 || group < full) {
          rows<4, Classes, Groups, W>(out, b, fragment);
        } else {
          rows<3, Classes, Groups, W>(out, b, fragment);
          // Lane groups 6 and 7 hold the upper bits of the others.
#pragma unroll
          for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int w = 0; w < W; ++w) {
              const std::uint32_t upper = __shfl_sync(0xffffffff, out[0][j][w], 24 + (g >= 3) * 4 + t);
              out[0][j][w] |= (upper >> 2 * (g % 3) & 0x03030303) << 6;
            }
        }
        const unsigned row = group * targets_per_group + g;
        if (row >= row_count) continue;
#pragma unroll
        for (int part = 0; part < Classes; ++part) {
          std::uint8_t* to = targets[row * Classes + part] + offset;
          if constexpr (together) {
            store<2 * W, Accumulate>(to + t * 8 * W, reinterpret_cast<std::uint32_t(&)[2 * W]>(out[part]));
          } else {
            store<W, Accumulate>(to + t * 4 * W, out[part][0]);
            store<W, Accumulate>(to + (4 + t) * 4 * W, out[part][1]);
          }
        }
      }
    }
    if constexpr (Eights) continue;
    rows<2, Classes, Groups, W>(out, b, shared + lane);
    // Two lane groups hold the halves of a target's bytes: they swap, and each stores half the positions.
    const bool odd = g % 2 != 0;
    const unsigned row = g / 2;
#pragma unroll
    for (int part = 0; part < Classes; ++part) {
      std::uint32_t mine[W];
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const std::uint32_t other = __shfl_xor_sync(0xffffffff, odd ? out[part][0][w] : out[part][1][w], 4);
        mine[w] = (odd ? other : out[part][0][w]) + (odd ? out[part][1][w] : other) * 16;
      }
      if (row < row_count)
        store<W, Accumulate>(
            targets[row * Classes + part] + offset + (together ? 2 * t + odd : 4 * odd + t) * 4 * W, mine);
    }
  }
}

}  // namespace
