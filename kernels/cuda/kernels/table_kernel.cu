// target = M . source for any matrix of few rows, by tables of products in shared memory.
//
// Sources are taken in groups of three, the last ones as a group of one or two. The 24 bits of three bytes
// are eight parts of three bits, and PRMT looks a part up in its eight products, four bytes an instruction:
// 8 PRMT and 4 XORs of three inputs for three words of a target (6 and 3 for two words, 3 and 2 for one). The
// parts are bits 0-2 and 4-6 of each byte, and twice three of the six bits 3 and 7. PRMT takes selectors of
// four bits, so the selectors of two words x, y are made together, a nibble of each in turn; the products
// come out as x0 y0 x1 y1 and x2 y2 x3 y3 and are sorted once a target, at the end. A row of ones is a sum
// without tables: every reed_sol_van code has one.
//
// A lane keeps 32 bytes of each target in registers. While it multiplies a group of sources, the next one is
// on its way into shared memory, at the end of a tile the first group of the next tile: copies that take no
// register (see Feed). All lanes read the tables of the same coefficients, a broadcast without conflicts.
// Reads each source once, writes each target once, 16 bytes a lane. If the chunk does not divide into tiles,
// the last tile starts early: two warps write the same bytes there.
#include <cstdint>

#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/kernels/pack.cuh"

// Not in the nameless namespace: nvcc would name it by the path of this file on the machine that compiles it.
extern __shared__ uint4 shared[];

namespace {

using namespace ec::kernels::cuda;

using Quad = Pack<16>;

/// Copies that go on while a lane computes; chips before 8.0 have none.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define EC_ASYNC_COPY(...) asm volatile(__VA_ARGS__)
#else
#define EC_ASYNC_COPY(...)
#endif

__device__ __forceinline__ std::uint32_t add3(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

/// The work on a target.
enum class TargetMode { overwritten, added_to, compared };

template <TargetMode Mode>
__device__ __forceinline__ void put(const KernelArgs& args, std::uint8_t* target, std::uint64_t at, Quad q) {
  auto* to = reinterpret_cast<uint4*>(target + at);
  if constexpr (Mode != TargetMode::overwritten) {
    const uint4 old = Mode == TargetMode::compared ? __ldcs(to) : *to;
    q.lane[0] ^= old.x, q.lane[1] ^= old.y, q.lane[2] ^= old.z, q.lane[3] ^= old.w;
  }
  if constexpr (Mode != TargetMode::compared)
    __stcs(to, make_uint4(q.lane[0], q.lane[1], q.lane[2], q.lane[3]));
  else if ((q.lane[0] | q.lane[1] | q.lane[2] | q.lane[3]) != 0)
    note_difference(args.difference, args.first_byte + at, q);
}

/// Two tables: the sums of the subsets of {a, b, c}, 0, a, b, a + b, c .., and of {d, e, f}.
__device__ uint4 subset_sums(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d,
                             std::uint32_t e, std::uint32_t f) {
  const auto of_two = [](std::uint32_t x, std::uint32_t y) { return x << 8 | y << 16 | (x ^ y) << 24; };
  return {of_two(a, b), of_two(a, b) ^ c * 0x01010101u, of_two(d, e), of_two(d, e) ^ f * 0x01010101u};
}

/// The tables of a row and a group of three sources a, b, c.
struct Products {
  uint4 of[3];  ///< by bits 0-2 of the source (x, y), by its bits 4-6 (z, w)
  uint4 rest;   ///< by bits 3 and 7 of a and 3 of b (x, y), by bits 7 of b and 3 and 7 of c (z, w)

  __device__ void make(const std::uint32_t (&coefficients)[3]) {
    std::uint32_t p[3][8];  // times 1, 2, 4 .. 128
#pragma unroll
    for (unsigned n = 0; n < 3; ++n) {
      p[n][0] = coefficients[n];
#pragma unroll
      for (unsigned b = 1; b < 8; ++b) p[n][b] = p[n][b - 1] << 1 ^ (p[n][b - 1] >> 7) * 0x11du;
      of[n] = subset_sums(p[n][0], p[n][1], p[n][2], p[n][4], p[n][5], p[n][6]);
    }
    rest = subset_sums(p[0][3], p[0][7], p[1][3], p[1][7], p[2][3], p[2][7]);
  }
};

/// The tables of a launch in shared memory, behind the sources of Feed: [group][row].
__device__ __forceinline__ Products* tables() {
  return reinterpret_cast<Products*>(shared + table_feed_bytes / sizeof(uint4));
}
/// By the whole block.
__device__ void make_tables(const std::uint8_t* coefficients, unsigned sources, unsigned rows) {
  for (unsigned i = threadIdx.x; i < (sources + table_group - 1) / table_group * rows; i += blockDim.x) {
    const unsigned first = i / rows * table_group, left = sources - first;
    const std::uint8_t* c = coefficients + i % rows * sources + first;
    tables()[i].make({c[0], left > 1 ? c[1] : 0u, left > 2 ? c[2] : 0u});
  }
  __syncthreads();
}

/// The upper half of x, whose bits 27 and 31 are 0, twice: as a number of half precision it is finite, and
/// adding -0 does not change it. Integer instructions limit these kernels, others are free (H100,
/// decode of 10+6 0.93 of the copy, 0.91 by a shift).
__device__ __forceinline__ std::uint32_t upper_half(std::uint32_t x) {
  asm("{.reg .b16 l, u; mov.b32 {l, u}, %0; mov.b32 %0, {u, u}; add.f16x2 %0, %0, %1;}"
      : "+r"(x)
      : "r"(1u << 31 | 1u << 15));
  return x;
}

/// For each of four words of N sources, the selectors of the tables of Products.
template <unsigned N>
struct Selectors {
  std::uint32_t of[N][2][4], rest[2][4];

  __device__ __forceinline__ explicit Selectors(const Quad (&x)[N]) {
#pragma unroll
    for (unsigned w = 0; w < 4; w += 2) {
      std::uint32_t nibbles[6] = {};  // lower and upper ones of each source
#pragma unroll
      for (unsigned n = 0; n < N; ++n) {
        const std::uint32_t a = x[n].lane[w], b = x[n].lane[w + 1];
        nibbles[2 * n] = pick(0x0f0f0f0fu, a, b << 4);
        nibbles[2 * n + 1] = pick(0x0f0f0f0fu, a >> 4, b);
        of[n][0][w] = nibbles[2 * n] & 0x77777777u;
        of[n][1][w] = nibbles[2 * n + 1] & 0x77777777u;
        of[n][0][w + 1] = upper_half(of[n][0][w]);
        of[n][1][w + 1] = upper_half(of[n][1][w]);
      }
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        rest[i][w] = fourth_bits(nibbles[3 * i], nibbles[3 * i + 1], nibbles[3 * i + 2]);
        rest[i][w + 1] = upper_half(rest[i][w]);
      }
    }
  }

 private:
  /// Nibbles whose bits 0, 1, 2 are the bits 3 of the nibbles of a, b, c.
  static __device__ __forceinline__ std::uint32_t fourth_bits(std::uint32_t a, std::uint32_t b,
                                                              std::uint32_t c) {
    const std::uint32_t two = pick(0x88888888u, b, a >> 1);
    return pick(0x88888888u, c, two >> 1) >> 1 & 0x77777777u;
  }
};

/// The tiles that a warp codes, one after the other.
class Tiles {
 public:
  __device__ explicit Tiles(const KernelArgs& args) : args_(args) {}

  __device__ __forceinline__ bool any() const { return first_ + threadIdx.x / 32 < tiles(); }
  /// A loop that asks for this first takes fewer registers.
  __device__ __forceinline__ bool any_of_block() const { return first_ < tiles(); }
  __device__ __forceinline__ void next() { first_ += std::uint64_t{gridDim.x} * warps; }
  /// Of the lane's first 16 bytes.
  __device__ __forceinline__ std::uint64_t offset() const {
    return min((first_ + threadIdx.x / 32) * table_tile, args_.bytes - table_tile) + threadIdx.x % 32 * 16;
  }

 private:
  __device__ __forceinline__ std::uint64_t tiles() const {
    return (args_.bytes + table_tile - 1) / table_tile;
  }

  static constexpr unsigned warps = table_threads / 32;
  const KernelArgs& args_;
  /// Of the block's first warp: a value that a whole block shares stays out of the lanes' registers.
  std::uint64_t first_ = std::uint64_t{blockIdx.x} * warps;
};

/// The sources of all tiles of a warp, a group at a time, by two places in shared memory. A lane copies and
/// takes its own bytes only, so that no lane waits for another one.
class Feed {
 public:
  __device__ explicit Feed(const KernelArgs& args)
      : args_(args), tiles_(args), any_(tiles_.any()), offset_(tiles_.offset()) {
    begin_next();
  }

  /// The next group becomes the present one. The group behind it comes into the place of the one before it.
  __device__ __forceinline__ void next() {
    turn_ ^= 1;
    begin_next();
    EC_ASYNC_COPY("cp.async.wait_group 1;" ::: "memory");
  }
  /// A half of source n of the present group.
  __device__ __forceinline__ Quad source(unsigned n, unsigned half) const {
    return reinterpret_cast<const Quad&>(place(turn_ ^ 1, n)[half * table_threads]);
  }

 private:
  __device__ __forceinline__ void begin_next() {
    if (any_) {
      const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args_.blob);
#pragma unroll
      for (unsigned n = 0; n < table_group; ++n)
        if (source_ + n < args_.sources) copy(place(turn_, n), sources[source_ + n] + offset_);
      source_ += table_group;
      if (source_ >= args_.sources) {
        source_ = 0;
        tiles_.next();
        any_ = tiles_.any();
        offset_ = tiles_.offset();
      }
    }
    EC_ASYNC_COPY("cp.async.commit_group;" ::: "memory");
  }
  static __device__ __forceinline__ uint4* place(unsigned turn, unsigned n) {
    return shared + (turn * table_group + n) * 2 * table_threads + threadIdx.x;
  }
  static __device__ __forceinline__ void copy(uint4* to, const std::uint8_t* from) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h, to += table_threads, from += table_tile / 2) {
      // Through the first cache: past it, 4+2 is 0.87 of the copy, with it 0.98 (H100).
      EC_ASYNC_COPY("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(
                        static_cast<unsigned>(__cvta_generic_to_shared(to))),
                    "l"(from)
                    : "memory");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
      *to = __ldg(reinterpret_cast<const uint4*>(from));
#endif
    }
  }

  const KernelArgs& args_;
  Tiles tiles_;
  bool any_;
  std::uint64_t offset_;
  unsigned source_ = 0, turn_ = 0;
};

template <int Rows, bool Ones>
struct Sums {
  // A lane has 16 bytes of the lower half of a tile and 16 of the upper one.
  Quad row[2][Rows + 1];  // interleaved; the last one is unused
  Quad ones[2];

  /// Adds the present group of the feed, of N sources.
  template <unsigned N>
  __device__ __forceinline__ void add(const Feed& feed, unsigned group) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      Quad x[N];
#pragma unroll
      for (unsigned n = 0; n < N; ++n) x[n] = feed.source(n, h);
      if constexpr (Ones)
#pragma unroll
        for (unsigned w = 0; w < 4; ++w)
#pragma unroll
          for (unsigned n = 0; n < N; ++n) ones[h].lane[w] ^= x[n].lane[w];
      if constexpr (Rows != 0) {
        const Selectors<N> at(x);
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const Products& t = tables()[group * Rows + r];
#pragma unroll
          for (unsigned w = 0; w < 4; ++w) {
            std::uint32_t& sum = row[h][r].lane[w];
#pragma unroll
            for (unsigned n = 0; n < N; ++n)
              sum = add3(sum, permute(t.of[n].x, t.of[n].y, at.of[n][0][w]),
                         permute(t.of[n].z, t.of[n].w, at.of[n][1][w]));
            sum = add3(sum, permute(t.rest.x, t.rest.y, at.rest[0][w]),
                       N == 1 ? 0 : permute(t.rest.z, t.rest.w, at.rest[1][w]));
          }
        }
      }
    }
  }
};

template <int Rows, bool Ones, TargetMode Mode>
__device__ __forceinline__ void transform(const KernelArgs& args) {
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  Feed feed(args);
  if constexpr (Rows != 0) make_tables(args.blob + 8 * (args.sources + Rows + Ones), args.sources, Rows);
  for (Tiles at(args); at.any_of_block(); at.next()) {
    if (!at.any()) break;
    Sums<Rows, Ones> sums{};
    for (unsigned left = args.sources, group = 0; left != 0; left -= min(left, table_group), ++group) {
      feed.next();
      if (left >= 3)
        sums.template add<3>(feed, group);
      else if (left == 2)
        sums.template add<2>(feed, group);
      else
        sums.template add<1>(feed, group);
    }
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const std::uint64_t offset = at.offset() + h * (table_tile / 2);
      if constexpr (Ones) put<Mode>(args, targets[0], offset, sums.ones[h]);
#pragma unroll
      for (int r = 0; r < Rows; ++r) put<Mode>(args, targets[Ones + r], offset, sorted(sums.row[h][r]));
    }
  }
}

}  // namespace

// Other chips need a few registers more for three tables and up.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define EC_TABLE_BLOCKS(rows, blocks) blocks
#else
#define EC_TABLE_BLOCKS(rows, blocks) ((rows) < 3 ? (blocks) : (blocks)-1)
#endif
// Three bodies: a choice at every store keeps the compiler from mixing stores with the code behind them (8+3:
// 0.82 for 0.84).
#define EC_TABLE_KERNEL(rows, ones, blocks)                                                  \
  extern "C" __global__ void __launch_bounds__(table_threads, EC_TABLE_BLOCKS(rows, blocks)) \
      ec_table_r##rows##_##ones(const __grid_constant__ KernelArgs args) {                   \
    if (args.difference != nullptr)                                                          \
      transform<rows, ones != 0, TargetMode::compared>(args);                                \
    else if (args.accumulate)                                                                \
      transform<rows, ones != 0, TargetMode::added_to>(args);                                \
    else                                                                                     \
      transform<rows, ones != 0, TargetMode::overwritten>(args);                             \
  }
EC_TABLE_KERNELS(EC_TABLE_KERNEL)
