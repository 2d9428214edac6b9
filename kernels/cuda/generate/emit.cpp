// A schedule printed as a CUDA C++ program. How it is printed was measured on an H200 (sm_90), driver
// 580.159.04, NVRTC 13.0; device resident, cauchy, 1.5 GiB of chunks, median of 13 runs, noise under 0.5 %.
// Ratios are moved bytes to a device-to-device copy (4158 GB/s) of the same run:
//   4+2 1.033   6+3 1.036   8+3 1.046   8+4 1.034   10+4 1.039   12+4 1.042   16+4 1.034   20+4 1.036
//   32+8 0.987
// What else was tried moves less than 1 % at these shapes, or loses:
//   sums of the low and high four planes, one source a step: 8+3 1.046, 10+4 1.044, 20+4 1.037; but one
//   stripe of 10+4, 16 KiB to 4 MiB chunks, at 0.92 to 0.96 of the speed (H100)
//   one source a step: 1.045, 1.033, 1.006
//   loads 0 / 2 / 3 steps ahead: 10+4 1.035 / 1.039 / 1.040; 20+4 1.034 / 1.039 / 1.033
//   threads 64 / 128 / 512: 10+4 1.043 / 1.042 / 0.939; 20+4 1.032 / 1.030 / 1.004
//   registers for 4 blocks: 10+4 1.039; 20+4 0.727 (64 registers: it spills)
//   cache hints of loads: 8+3 and 10+4 0.94 to 0.95; of stores, or both: as without
//   products for shifts: 10+4 1.042; 32+8 with warps in lockstep 0.973. lockstep: 10+4 1.035, 32+8 0.981
//   blocks a few waves of the chip instead of one warp a tile: 10+4 1.012 to 1.033
#include "kernels/cuda/generate/emit.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {
namespace {

// What does not depend on the schedule.

/// Types, XORs, memory access, the transposition. The asm statements are not volatile: the compiler may order
/// them as it likes, but not regroup XORs, which would undo the sharing of the schedule.
constexpr std::string_view preamble = R"(
typedef unsigned u;
typedef unsigned char byte;
typedef unsigned long long address;
#define X3(d,a,b,c) asm("lop3.b32 %0,%1,%2,%3,0x96;":"=r"(d):"r"(a),"r"(b),"r"(c))
#define X2(d,a,b) asm("xor.b32 %0,%1,%2;":"=r"(d):"r"(a),"r"(b))
static __device__ __forceinline__ uint4 load16(const byte* from) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}
static __device__ __forceinline__ void store16(byte* to, uint4 v) {
#if ACCUMULATE
  const uint4 old = *(const uint4*)to;
  v.x ^= old.x, v.y ^= old.y, v.z ^= old.z, v.w ^= old.w;
#endif
  asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
// Swaps the upper fields of a with the lower fields of b; 0xca is (mask & x) | (~mask & y).
#define SWAP(a,b,bits,mask) \
  "shl.b32 l," b "," bits ";" "shr.u32 r," a "," bits ";" \
  "lop3.b32 " a "," mask "," a ",l,0xca;" "lop3.b32 " b "," mask ",r," b ",0xca;"
#define SWAP4(a,b) SWAP(a,b,"4","0x0f0f0f0f")
#define SWAP2(a,b) SWAP(a,b,"2","0x33333333")
#define SWAP1(a,b) SWAP(a,b,"1","0x55555555")
// Operands of no instruction: without them ptxas (CUDA 13.0) allots registers otherwise than it was measured.
#define UNUSED "r"(p.unused[0]), "r"(p.unused[1]), "r"(p.unused[2]), "r"(p.unused[3]), "r"(p.unused[4]), "r"(p.unused[5])
// Eight words of four bytes into eight bit planes, and back.
#define T(a,b,c,d,e,f,g,h) asm("{.reg .b32 l,r;" \
  SWAP4("%0","%4") SWAP4("%1","%5") SWAP4("%2","%6") SWAP4("%3","%7") \
  SWAP2("%0","%2") SWAP2("%1","%3") SWAP2("%4","%6") SWAP2("%5","%7") \
  SWAP1("%0","%1") SWAP1("%2","%3") SWAP1("%4","%5") SWAP1("%6","%7") "}" \
  : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h) : UNUSED)
#define LD(x,y,chunk) { const byte* from = (chunk) + offset; x = load16(from); y = load16(from + 512); }
#define ST(t,a,b,c,d,e,f,g,h) { T(a,b,c,d,e,f,g,h); byte* to = TARGET(t) + offset; \
  if (first) store16(to, make_uint4(a,b,c,d)); if (second) store16(to + 512, make_uint4(e,f,g,h)); }
)";

constexpr std::string_view stripe_parameters = R"(
struct Parameters { address source[K], target[M], bytes, stripes; u unused[6]; };
#define STRIPES 1
#define SOURCE(i) ((const byte*)p.source[i])
#define TARGET(i) ((byte*)p.target[i])
)";

constexpr std::string_view batch_parameters = R"(
#define BATCH
struct Parameters { const address* table; address bytes, stripes; u unused[6]; };
#define STRIPES p.stripes
#define SOURCE(i) ((const byte*)__ldg(chunks + (i)))
#define TARGET(i) ((byte*)__ldg(chunks + K + (i)))
)";

/// What the tiles leave: chunks shorter than a tile, and the last bytes of chunks that are no multiple of 16.
constexpr std::string_view bytewise = R"(
__constant__ byte coefficient[M * K] = {COEFFICIENTS};
static __device__ __noinline__ void bytewise(const Parameters& p, address stripe, address from) {
#ifdef BATCH
  const address* chunks = p.table + stripe * (K + M);
#endif
  for (address at = from + threadIdx.x; at < p.bytes; at += THREADS)
    for (int t = 0; t < M; ++t) {
      u sum = ACCUMULATE ? TARGET(t)[at] : 0;
      for (int s = 0; s < K; ++s) {
        const u v = SOURCE(s)[at];
        u c = coefficient[t * K + s];
        for (int bit = 0; bit < 8; ++bit) {
          sum ^= (v >> bit & 1) * c;
          c = c << 1 ^ (c >> 7) * 0x11d;
        }
      }
      TARGET(t)[at] = sum;
    }
}
)";

/// A warp codes 1024 bytes at once: a lane has 16 of the lower and 16 of the upper half. If the chunk does
/// not divide, its last tile starts early and overlaps the one before; only bytes not coded there are stored.
constexpr std::string_view tile_loop = R"(
  const u lane = threadIdx.x % 32, warps = THREADS / 32;
  const address tiles = p.bytes < 1024 ? 0 : (p.bytes / 16 * 16 + 1023) / 1024;
  const address all = tiles * STRIPES;
  const address last = p.bytes / 16 * 16 - 1024;
  for (address tile = (address)blockIdx.x * warps + threadIdx.x / 32; tile < all; tile += (address)gridDim.x * warps) {
#ifdef BATCH
    const u stripe = (u)tile / (u)tiles, in_stripe = (u)tile - stripe * (u)tiles;
    const address* chunks = p.table + (address)stripe * (K + M);
    const address start = (address)in_stripe * 1024;
#else
    const address start = tile * 1024;
#endif
    const address offset = (start < last ? start : last) + lane * 16;
    const bool first = offset >= start, second = offset + 512 >= start;
)";

constexpr std::string_view end_of_kernel = R"(
  }
  const address done = tiles == 0 ? 0 : p.bytes / 16 * 16;
  if (done != p.bytes)
    for (address stripe = blockIdx.x; stripe < STRIPES; stripe += gridDim.x) bytewise(p, stripe, done);
}
)";

class Emitter {
 public:
  Emitter(const gf::Matrix& matrix, ProgramForm form, unsigned chip)
      : matrix_(matrix), schedule_(make_schedule(matrix)), form_(form), chip_(chip) {}

  std::string text() {
    definitions();
    out_ += preamble;
    out_ += form_ == ProgramForm::batch ? batch_parameters : stripe_parameters;
    out_ += bytewise;
    kernel();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void definitions() {
    put("#define K {}\n#define M {}\n#define THREADS {}\n#define ACCUMULATE {}\n#define COEFFICIENTS ",
        schedule_.sources, schedule_.targets, block_threads, form_ == ProgramForm::accumulate ? 1 : 0);
    for (std::size_t i = 0; i < matrix_.cells().size(); ++i)
      put("{}{}", i == 0 ? "" : ",", matrix_.cells()[i]);
    out_ += '\n';
  }

  void kernel() {
    // Left to itself the compiler fits 8+4 into 64 registers on sm_75 and spills 16 bytes; told that two
    // blocks are enough it takes 90, and none up to 32+8 spills (NVRTC 13.0's report; sm_75 is not measured).
    put("extern \"C\" __global__ void __launch_bounds__(THREADS{})\n{}(const __grid_constant__ Parameters p) "
        "{{\n",
        chip_ < 80 ? ", 2" : "", entry_point);
    out_ += tile_loop;
    // Scalars: an array of them costs the compiler several times as long.
    for (unsigned i = 0; i < 8 * schedule_.targets; ++i) put("{}a{}=0", i == 0 ? "u " : ",", i);
    put(";\n");
    // Loads run one step ahead of their use.
    load(0);
    for (unsigned s = 0; s < schedule_.steps.size(); ++s) {
      load(s + 1);
      step(schedule_.steps[s]);
    }
    for (unsigned t = 0; t < schedule_.targets; ++t) store(t);
    out_ += end_of_kernel;
  }

  /// Of step `s`, if there is one.
  void load(unsigned s) {
    if (s >= schedule_.steps.size()) return;
    const Step& step = schedule_.steps[s];
    for (unsigned i = step.first; i < step.first + step.count; ++i)
      put("uint4 x{0},y{0};LD(x{0},y{0},SOURCE({0}));\n", i);
  }

  void step(const Step& step) {
    put("{{");
    for (unsigned i = 0; i < step.count; ++i) {
      const unsigned b = 8 * i, x = step.first + i;
      put("u r{}=x{}.x,r{}=x{}.y,r{}=x{}.z,r{}=x{}.w,", b, x, b + 1, x, b + 2, x, b + 3, x);
      put("r{}=y{}.x,r{}=y{}.y,r{}=y{}.z,r{}=y{}.w;\n", b + 4, x, b + 5, x, b + 6, x, b + 7, x);
      put("T(r{},r{},r{},r{},r{},r{},r{},r{});\n", b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7);
    }
    for (const Xor& x : step.xors) line(x);
    put("}}\n");
  }

  void line(const Xor& x) {
    const bool sum = x.to < accumulator_base;
    if (sum) put("u {};", name(x.to));
    if (x.c != no_register)
      put("X3({},{},{},{});\n", name(x.to), name(x.a), name(x.b), name(x.c));
    else if (x.b != no_register)
      put("X2({},{},{});\n", name(x.to), name(x.a), name(x.b));
    else
      put("{}={};\n", name(x.to), name(x.a));
  }

  static std::string name(Register r) {
    return r >= accumulator_base ? fmt::format("a{}", r - accumulator_base) : fmt::format("r{}", r);
  }

  void store(unsigned t) {
    put("ST({}", t);
    for (unsigned b = 0; b < 8; ++b) put(",a{}", 8 * t + b);
    put(");\n");
  }

  const gf::Matrix& matrix_;
  const Schedule schedule_;
  const ProgramForm form_;
  const unsigned chip_;
  std::string out_;
};

}  // namespace

std::string emit(const gf::Matrix& matrix, ProgramForm form, unsigned chip) {
  return Emitter(matrix, form, chip).text();
}

}  // namespace ec::kernels::cuda
