// Kernels for any matrix, compiled once per shape here: the tensor-core kernel on bits, the table kernel, and
// the XOR kernel of the same access pattern that they are measured against.
#pragma once

namespace probe {

inline constexpr const char* common_text = R"(
typedef unsigned u;
typedef unsigned char byte;
typedef unsigned long long address;
struct Parameters { address source[K], target[M], bytes, table; };
#define X3(d,a,b,c) asm("lop3.b32 %0,%1,%2,%3,0x96;":"=r"(d):"r"(a),"r"(b),"r"(c))
static __device__ __forceinline__ u pick(u mask, u x, u y) {  // (mask & x) | (~mask & y)
  u d;
  asm("lop3.b32 %0,%1,%2,%3,0xca;" : "=r"(d) : "r"(mask), "r"(x), "r"(y));
  return d;
}
static __device__ __forceinline__ u prmt(u a, u b, u selector) {
  u d;
  asm("prmt.b32 %0,%1,%2,%3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}
template <int N> static __device__ __forceinline__ void load(u* x, const byte* from) {
  if (N == 4) asm volatile(LOAD ".v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "l"(from));
  if (N == 2) asm volatile(LOAD ".v2.u32 {%0,%1},[%2];" : "=r"(x[0]), "=r"(x[1]) : "l"(from));
  if (N == 1) asm volatile(LOAD ".u32 %0,[%1];" : "=r"(x[0]) : "l"(from));
}
template <int N> static __device__ __forceinline__ void store(byte* to, const u* x) {
  if (N == 4) asm volatile(STORE ".v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
  if (N == 2) asm volatile(STORE ".v2.u32 [%0],{%1,%2};" ::"l"(to), "r"(x[0]), "r"(x[1]) : "memory");
  if (N == 1) asm volatile(STORE ".u32 [%0],%1;" ::"l"(to), "r"(x[0]) : "memory");
}
)";

/// Reads k chunks, writes their XOR m times, 32 bytes a thread as the generated kernels do.
inline constexpr const char* xor_text = R"(
extern "C" __global__ void __launch_bounds__(THREADS) ec_xor(const __grid_constant__ Parameters p) {
  const u lane = threadIdx.x % 32, warps = THREADS / 32;
  const address tiles = p.bytes / 1024;
  for (address tile = (address)blockIdx.x * warps + threadIdx.x / 32; tile < tiles; tile += (address)gridDim.x * warps) {
    const address offset = tile * 1024 + lane * 16;
    u a[8] = {};
#pragma unroll
    for (int s = 0; s < K; ++s) {
      u x[8];
      load<4>(x, (const byte*)p.source[s] + offset);
      load<4>(x + 4, (const byte*)p.source[s] + offset + 512);
      for (int i = 0; i < 8; ++i) a[i] ^= x[i];
    }
#pragma unroll
    for (int t = 0; t < M; ++t) {
      store<4>((byte*)p.target[t] + offset, a);
      store<4>((byte*)p.target[t] + offset + 512, a + 4);
    }
  }
}
)";

/// Coding as a product of bit matrices on the tensor cores: counts of ones by AND and population count, whose
/// lowest bit is the sum in GF(2).
///   A: the bit matrix of the code, rows of target bits, 256 (or 128) columns of source bits an instruction.
///   B: the data as it lies: a column is one byte position, its 8 k bits the bytes of all sources there.
/// Lane (g, t) = (lane / 4, lane % 4) loads 4 W bytes of the sources 4 q + t, q = 0 .. SLOTS - 1; a 4 x 4
/// byte transposition makes each register four sources' bytes of one position, which is what B wants. Rows
/// are dealt so that lane group g ends up with all eight bits of target g (8 targets a group of four row
/// blocks), or with half a byte of target g / 2 (up to 4 targets, two row blocks): the parities then pack
/// within a lane. Instructions per source byte at k : m = 4 : 1: 0.5 (transposition) + 3 (packing) + loads.
inline constexpr const char* bitmma_text = R"(
#define SLOTS ((K + 3) / 4)
#define GROUPS ((SLOTS + 3) / 4)
#define REST (M % 8)
#define HALF (REST != 0 && REST <= 4)
#define FULL_GROUPS (M / 8 + (REST > 4))
#define ROW_BLOCKS (4 * FULL_GROUPS + (HALF ? 2 : 0))
#define TILE (32 * W)
static __device__ __forceinline__ void mma256(u (&c)[4], uint2 a, uint2 b, u x, u y) {
  asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y), "r"(x), "r"(y));
}
static __device__ __forceinline__ void mma128(u (&c)[4], uint2 a, u x) {
  asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a.x), "r"(a.y), "r"(x));
}
// The lowest bits of four counts as the lowest bits of four bytes; other bits are anything.
static __device__ __forceinline__ u parities(u c0, u c1, u c2, u c3) {
#if PACK == 0
  return prmt(prmt(c0, c1, 0x0040), prmt(c2, c3, 0x0040), 0x5410);
#else
  const u even = c0 + c2 * 0x10000u, odd = c1 * 0x100u + c3 * 0x1000000u;
  return pick(0x00ff00ff, even, odd);
#endif
}
template <int BLOCKS> static __device__ __forceinline__ void rows(u (&out)[2][W], const u (&b)[GROUPS][4 * W], const uint2* fragment) {
#pragma unroll
  for (int w = 0; w < W; ++w) out[0][w] = out[1][w] = 0;
#pragma unroll UNROLL_ROWS
  for (int block = BLOCKS - 1; block >= 0; --block) {
    uint2 a[GROUPS];
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) a[i] = fragment[(block * GROUPS + i) * 32];
#pragma unroll
    for (int w = 0; w < W; ++w) {
      u c[4][4] = {};
#pragma unroll
      for (int i = 0; i + 1 < GROUPS; i += 2)
#pragma unroll
        for (int n = 0; n < 4; ++n) mma256(c[n], a[i], a[i + 1], b[i][4 * w + n], b[i + 1][4 * w + n]);
      if (GROUPS % 2)
#pragma unroll
        for (int n = 0; n < 4; ++n) mma128(c[n], a[GROUPS - 1], b[GROUPS - 1][4 * w + n]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        out[j][w] = pick(0x01010101, parities(c[0][2 + j], c[1][2 + j], c[2][2 + j], c[3][2 + j]), out[j][w] * 2);
        out[j][w] = pick(0x01010101, parities(c[0][j], c[1][j], c[2][j], c[3][j]), out[j][w] * 2);
      }
    }
  }
}
extern "C" __global__ void __launch_bounds__(THREADS BLOCKS_HINT) ec_bitmma(const __grid_constant__ Parameters p) {
  __shared__ uint2 fragments[ROW_BLOCKS * GROUPS * 32];
  __shared__ address chunks[4 * SLOTS + M];
  for (u i = threadIdx.x; i < ROW_BLOCKS * GROUPS * 32; i += THREADS) fragments[i] = ((const uint2*)p.table)[i];
  for (u i = threadIdx.x; i < K; i += THREADS) chunks[i] = p.source[i];
  for (u i = threadIdx.x; i < M; i += THREADS) chunks[4 * SLOTS + i] = p.target[i];
  __syncthreads();
  const u lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warps = THREADS / 32;
  const u piece = (g % 2) * 4 + g / 2;
  const address tiles = (p.bytes + TILE - 1) / TILE, last = p.bytes - TILE;
  for (address tile = (address)blockIdx.x * warps + threadIdx.x / 32; tile < tiles; tile += (address)gridDim.x * warps) {
    const address start = tile * TILE, offset = start < last ? start : last;
    u b[GROUPS][4 * W];
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) {
      u x[4][W];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const u s = (4 * i + q) * 4 + t;
#pragma unroll
        for (int w = 0; w < W; ++w) x[q][w] = 0;
        if ((4 * i + q) * 4 + 3 < K) load<W>(x[q], (const byte*)chunks[s] + offset + piece * 4 * W);
        else if ((4 * i + q) * 4 < K) { if (s < K) load<W>(x[q], (const byte*)chunks[s] + offset + piece * 4 * W); }
      }
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const u l0 = prmt(x[0][w], x[1][w], 0x5140), l1 = prmt(x[2][w], x[3][w], 0x5140);
        const u h0 = prmt(x[0][w], x[1][w], 0x7362), h1 = prmt(x[2][w], x[3][w], 0x7362);
        b[i][4 * w] = prmt(l0, l1, 0x5410), b[i][4 * w + 1] = prmt(l0, l1, 0x7632);
        b[i][4 * w + 2] = prmt(h0, h1, 0x5410), b[i][4 * w + 3] = prmt(h0, h1, 0x7632);
      }
    }
    u out[2][W];
#pragma unroll UNROLL_GROUPS
    for (int group = 0; group < FULL_GROUPS; ++group) {
      rows<4>(out, b, fragments + group * 4 * GROUPS * 32 + lane);
      const u target = group * 8 + g;
      if (M % 8 == 0 || target < M) {
        byte* to = (byte*)chunks[4 * SLOTS + target] + offset;
        store<W>(to + t * 4 * W, out[0]);
        store<W>(to + (4 + t) * 4 * W, out[1]);
      }
    }
#if HALF
    rows<2>(out, b, fragments + FULL_GROUPS * 4 * GROUPS * 32 + lane);
    const bool odd = g % 2;
    u mine[W];
#pragma unroll
    for (int w = 0; w < W; ++w) {
      const u other = __shfl_xor_sync(0xffffffff, odd ? out[0][w] : out[1][w], 4);
      mine[w] = (odd ? other : out[0][w]) + (odd ? out[1][w] : other) * 16;
    }
    const u target = FULL_GROUPS * 8 + g / 2;
    if (REST == 4 || target < M) store<W>((byte*)chunks[4 * SLOTS + target] + offset + (4 * odd + t) * 4 * W, mine);
#endif
  }
}
)";

/// Any matrix by tables: a byte is split into 3 + 3 + 2 bits, and PRMT looks each part up in tables of 8, 8
/// and 4 bytes held per coefficient (5 words). Selectors are made for two words at once, a nibble each, so
/// the products come out with bytes interleaved; that is undone once per target. W words a thread, ROWS
/// targets a pass (blockIdx.y counts passes), tables in shared memory or in the parameters.
inline constexpr const char* table_text = R"(
#if IN_PARAMETERS
struct TableParameters { Parameters p; u tables[K * M * 8]; };
#define ENTRY const __grid_constant__ TableParameters tp
#else
#define ENTRY const __grid_constant__ Parameters p
#endif
extern "C" __global__ void __launch_bounds__(THREADS BLOCKS_HINT) ec_table(ENTRY) {
#if IN_PARAMETERS
  const Parameters& p = tp.p;
#else
  __shared__ uint4 tables[K * ROWS * 2];
  for (u i = threadIdx.x; i < K * ROWS * 2; i += THREADS) {
    const u s = i / 2 / ROWS, r = i / 2 % ROWS, t = blockIdx.y * ROWS + r;
    tables[i] = t < M ? ((const uint4*)p.table)[(s * M + t) * 2 + i % 2] : make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
#endif
  const address tiles = p.bytes / (16 * W / 4 * 32);
  const u lane = threadIdx.x % 32, warps = THREADS / 32, row = blockIdx.y * ROWS;
  for (address tile = (address)blockIdx.x * warps + threadIdx.x / 32; tile < tiles; tile += (address)gridDim.x * warps) {
    const address offset = tile * (128 * W) + lane * 16;
    u a[ROWS][W];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int w = 0; w < W; ++w) a[r][w] = 0;
    u next[W];
#pragma unroll
    for (int w = 0; w < W; w += 4) load<4>(next + w, (const byte*)p.source[0] + offset + w * 128);
#pragma unroll UNROLL
    for (int s = 0; s < K; ++s) {
      u x[W];
#pragma unroll
      for (int w = 0; w < W; ++w) x[w] = next[w];
      if (s + 1 < K)
#pragma unroll
        for (int w = 0; w < W; w += 4) load<4>(next + w, (const byte*)p.source[s + 1] + offset + w * 128);
      u z[3][W];
#pragma unroll
      for (int w = 0; w < W; w += 2) {
        z[0][w] = pick(0x0f0f0f0f, x[w], x[w + 1] << 4) & 0x77777777;
        z[1][w] = pick(0x0f0f0f0f, x[w] >> 3, x[w + 1] << 1) & 0x77777777;
        z[2][w] = pick(0x0f0f0f0f, x[w] >> 6, x[w + 1] >> 2) & 0x33333333;
#pragma unroll
        for (int f = 0; f < 3; ++f) z[f][w + 1] = z[f][w] >> 16;
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
#if IN_PARAMETERS
        const u* e = tp.tables + (s * M + row + r) * 8;
        const uint4 low = make_uint4(e[0], e[1], e[2], e[3]);
        const u high = e[4];
#else
        const uint4 low = tables[(s * ROWS + r) * 2];
        const u high = tables[(s * ROWS + r) * 2 + 1].x;
#endif
#pragma unroll
        for (int w = 0; w < W; ++w) {
          X3(a[r][w], a[r][w], prmt(low.x, low.y, z[0][w]), prmt(low.z, low.w, z[1][w]));
          a[r][w] ^= prmt(high, high, z[2][w]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (M % ROWS != 0 && row + r >= M) break;
      byte* to = (byte*)p.target[row + r] + offset;
#pragma unroll
      for (int w = 0; w < W; w += 4) {
        u x[4];
        for (int i = 0; i < 4; i += 2) {
          x[i] = prmt(a[r][w + i], a[r][w + i + 1], 0x6420);
          x[i + 1] = prmt(a[r][w + i], a[r][w + i + 1], 0x7531);
        }
        store<4>(to + w * 128, x);
      }
    }
  }
}
)";

/// Peak rate of the binary tensor-core instruction: independent chains in registers.
inline constexpr const char* mma_rate_text = R"(
extern "C" __global__ void __launch_bounds__(THREADS) ec_mma_rate(const __grid_constant__ Parameters p) {
  u c[8][4] = {};
  const u a = threadIdx.x, b = blockIdx.x + threadIdx.x;
  for (int i = 0; i < (int)p.bytes; ++i)
#pragma unroll
    for (int n = 0; n < 8; ++n)
      asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
          : "+r"(c[n][0]), "+r"(c[n][1]), "+r"(c[n][2]), "+r"(c[n][3]) : "r"(a), "r"(a + 1), "r"(a + 2), "r"(a + 3), "r"(b), "r"(b + 1));
  u sum = 0;
  for (int n = 0; n < 8; ++n) for (int j = 0; j < 4; ++j) sum += c[n][j];
  if (sum == 0x12345678) *(u*)p.target[0] = sum;
}
)";

/// word i of a chunk = mix(chunk number, i): the host computes it too.
inline constexpr const char* fill_text = R"(
typedef unsigned u;
typedef unsigned long long address;
extern "C" __global__ void ec_fill(address to, address words, u chunk) {
  for (address i = (address)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (address)gridDim.x * blockDim.x) {
    u h = (u)i * 0x9e3779b1u ^ chunk * 0x85ebca6bu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    ((u*)to)[i] = h ^ h >> 15;
  }
}
)";

}  // namespace probe
