// target = M . source for any matrix of few rows, by tables of products in shared memory.
//
// A byte is split into bits 0-2, bits 4-6, and bits 3 and 7. PRMT looks each part up in the 8, 8 and 4
// products of a coefficient, four bytes an instruction: 3 PRMT and, taking two sources at a time, 1.5 XORs of
// three inputs a word, target and source. PRMT takes selectors of four bits, so the selectors of two words x,
// y are made together, a nibble of each in turn; the products come out as x0 y0 x1 y1 and x2 y2 x3 y3 and are
// sorted once a target, at the end. A row of ones is a sum without tables: every reed_sol_van code has one.
//
// A lane keeps 32 bytes of each target in registers. While it multiplies two sources, the next four are on
// their way into shared memory, at the end of a tile the first sources of the next tile: copies that take no
// register (see Feed). All lanes read the tables of the same coefficient, a broadcast without conflicts.
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
/// A lane's part of a tile: 16 bytes of its lower half and 16 of its upper half.
struct Part {
  Quad half[2];
};

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

/// The products of a coefficient: by bits 0-2 (x, y), by bits 4-6 (z, w), by bits 3 and 7.
struct Products {
  uint4 low;
  std::uint32_t high;
};

__device__ __forceinline__ Products products_of(std::uint32_t c) {
  std::uint32_t p[8];
#pragma unroll
  for (unsigned b = 0; b < 8; ++b) {
    p[b] = c;
    c = (c << 1) ^ ((c >> 7) * 0x11du);
  }
  Products t;
  t.low.x = four_products(p[0], p[1]);
  t.low.y = t.low.x ^ p[2] * 0x01010101u;
  t.low.z = four_products(p[4], p[5]);
  t.low.w = t.low.z ^ p[6] * 0x01010101u;
  t.high = four_products(p[3], p[7]);
  return t;
}

/// The tables of a launch in shared memory, behind the ring of Feed: [source][row].
struct Tables {
  uint4* low;
  std::uint32_t* high;

  __device__ Tables(unsigned sources, unsigned rows) {
    low = shared + table_ring_bytes / sizeof(uint4);
    high = reinterpret_cast<std::uint32_t*>(low + sources * rows);
  }
  /// Made by the whole block.
  __device__ void make(const std::uint8_t* coefficients, unsigned sources, unsigned rows) const {
    for (unsigned i = threadIdx.x; i < sources * rows; i += blockDim.x) {
      const Products t = products_of(coefficients[i % rows * sources + i / rows]);
      low[i] = t.low;
      high[i] = t.high;
    }
    __syncthreads();
  }
  __device__ __forceinline__ Products at(unsigned source, unsigned rows, unsigned row) const {
    return {low[source * rows + row], high[source * rows + row]};
  }
};

/// For each of four words, the selectors of the three parts of Products.
struct Selectors {
  std::uint32_t part[3][4];
};

__device__ __forceinline__ Selectors selectors_of(const Quad& x) {
  Selectors s;
#pragma unroll
  for (unsigned w = 0; w < 4; w += 2) {
    const std::uint32_t a = x.lane[w], b = x.lane[w + 1];
    const std::uint32_t lower = pick(0x0f0f0f0fu, a, b << 4);
    const std::uint32_t upper = pick(0x0f0f0f0fu, a >> 4, b);
    s.part[0][w] = lower & 0x77777777u;
    s.part[1][w] = upper & 0x77777777u;
    s.part[2][w] = pick(0x44444444u, lower >> 1, upper) >> 2 & 0x33333333u;
#pragma unroll
    for (auto& part : s.part) part[w + 1] = part[w] >> 16;
  }
  return s;
}

__device__ __forceinline__ std::uint32_t look_up(const Products& t, const Selectors& s, unsigned word) {
  return add3(permute(t.low.x, t.low.y, s.part[0][word]), permute(t.low.z, t.low.w, s.part[1][word]),
              permute(t.high, t.high, s.part[2][word]));
}

template <int Rows, bool Ones>
struct Sums {
  Part row[Rows + 1];  // interleaved; the last one is unused
  Part ones;

  /// Adds source s, and source s + 1 if Two.
  template <bool Two>
  __device__ __forceinline__ void add(const Tables& tables, unsigned s, const Part& x, const Part& y) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const Quad &a = x.half[h], &b = y.half[h];
      if constexpr (Ones)
#pragma unroll
        for (unsigned w = 0; w < 4; ++w)
          ones.half[h].lane[w] = add3(ones.half[h].lane[w], a.lane[w], Two ? b.lane[w] : 0);
      if constexpr (Rows != 0) {
        const Selectors at_a = selectors_of(a), at_b = selectors_of(b);
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const Products t = tables.at(s, Rows, r), u = tables.at(s + Two, Rows, r);
#pragma unroll
          for (unsigned w = 0; w < 4; ++w) {
            std::uint32_t& sum = row[r].half[h].lane[w];
            sum = add3(sum, look_up(t, at_a, w), Two ? look_up(u, at_b, w) : 0);
          }
        }
      }
    }
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

/// The sources of all tiles of a warp, two at a time, by a ring in shared memory. A lane copies and takes its
/// own bytes only, so that no lane waits for another one.
class Feed {
 public:
  __device__ explicit Feed(const KernelArgs& args)
      : args_(args), tiles_(args), any_(tiles_.any()), offset_(tiles_.offset()) {}

  /// Begins the copies of the next two sources, if there are more.
  __device__ __forceinline__ void begin_next() {
    if (any_) {
      const auto* sources = reinterpret_cast<const std::uint8_t* const*>(args_.blob);
#pragma unroll
      for (unsigned i = 0; i < 2; ++i)
        if (source_ + i < args_.sources) copy(place(newest_, i), sources[source_ + i] + offset_);
      source_ += 2;
      if (source_ >= args_.sources) {
        source_ = 0;
        tiles_.next();
        any_ = tiles_.any();
        offset_ = tiles_.offset();
      }
    }
    EC_ASYNC_COPY("cp.async.commit_group;" ::: "memory");
    advance(newest_);
  }
  __device__ __forceinline__ void wait_for_oldest() const {
    EC_ASYNC_COPY("cp.async.wait_group %0;" ::"n"(table_ring - 1) : "memory");
  }
  /// One of the two sources that were begun first.
  __device__ __forceinline__ Part oldest(unsigned i) const {
    const uint4* from = place(oldest_, i);
    const uint4 a = from[0], b = from[table_threads];
    return {{{{a.x, a.y, a.z, a.w}}, {{b.x, b.y, b.z, b.w}}}};
  }
  __device__ __forceinline__ void drop_oldest() { advance(oldest_); }

 private:
  static __device__ __forceinline__ uint4* place(unsigned turn, unsigned i) {
    return shared + (turn * 2 + i) * 2 * table_threads + threadIdx.x;
  }
  static __device__ __forceinline__ void advance(unsigned& turn) {
    turn = turn + 1 == table_ring ? 0 : turn + 1;
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
  unsigned source_ = 0, newest_ = 0, oldest_ = 0;
};

template <int Rows, bool Ones, TargetMode Mode>
__device__ __forceinline__ void transform(const KernelArgs& args) {
  const auto* targets = reinterpret_cast<std::uint8_t* const*>(args.blob + 8 * args.sources);
  const Tables tables(args.sources, Rows);
  if constexpr (Rows != 0) tables.make(args.blob + 8 * (args.sources + Rows + Ones), args.sources, Rows);

  Feed feed(args);
#pragma unroll
  for (unsigned i = 1; i < table_ring; ++i) feed.begin_next();
  for (Tiles at(args); at.any_of_block(); at.next()) {
    if (!at.any()) break;
    Sums<Rows, Ones> sums{};
    for (unsigned s = 0; s < args.sources; s += 2) {
      feed.begin_next();
      feed.wait_for_oldest();
      const Part x = feed.oldest(0);
      if (s + 1 < args.sources)
        sums.template add<true>(tables, s, x, feed.oldest(1));
      else
        sums.template add<false>(tables, s, x, x);
      feed.drop_oldest();
    }
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const std::uint64_t offset = at.offset() + h * (table_tile / 2);
      if constexpr (Ones) put<Mode>(args, targets[0], offset, sums.ones.half[h]);
#pragma unroll
      for (int r = 0; r < Rows; ++r) put<Mode>(args, targets[Ones + r], offset, sorted(sums.row[r].half[h]));
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
