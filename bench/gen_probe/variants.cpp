#include "bench/gen_probe/variants.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/gen_probe/kernel_text.hpp"
#include "gf/generator.hpp"
#include "gf/gf256.hpp"
#include "kernels/cuda/generate/emit.hpp"

namespace probe {
namespace {

using ec::gf::Matrix;
using namespace ec::kernels::cuda;

struct Shape {
  unsigned k, m;
};

Matrix rows_of(const Matrix& matrix, unsigned first, unsigned count) {
  Matrix part(count, matrix.cols());
  for (unsigned r = 0; r < count; ++r)
    for (unsigned c = 0; c < matrix.cols(); ++c) part(r, c) = matrix(first + r, c);
  return part;
}

Variant generated(Shape shape, ScheduleOptions schedule, EmitOptions emit_options, unsigned waves = 0,
                  unsigned rows_per_pass = 16) {
  Variant v;
  v.kernel = "generated";
  const EmitOptions& e = emit_options;
  v.settings = fmt::format("{} step{} t{} b{} pf{} tr{} ld{} st{}{}{} w{}", name(schedule.strategy),
                           schedule.sources_per_step, e.threads, e.min_blocks, e.prefetch,
                           static_cast<int>(e.transposition), static_cast<int>(e.load),
                           static_cast<int>(e.store), e.lockstep ? " lock" : "",
                           shape.m > rows_per_pass ? fmt::format(" rows{}", rows_per_pass) : "", waves);
  v.k = shape.k, v.m = shape.m, v.extra = Extra::generated, v.threads = e.threads, v.waves = waves;
  const Matrix matrix = coding(shape.k, shape.m);
  for (unsigned r = 0; r < shape.m; r += rows_per_pass) {
    const unsigned count = std::min(rows_per_pass, shape.m - r);
    const Matrix part = rows_of(matrix, r, count);
    v.passes.push_back({emit(part, make_schedule(part, schedule), e), entry_point, r, count});
  }
  return v;
}

struct Any {
  unsigned threads = 256, blocks = 0, w = 4, rows = 4, unroll = 1, waves = 2;
  int load = 0, store = 0, pack = 1;
  bool in_parameters = false, unroll_groups = false;
};

std::string definitions(Shape s, const Any& a) {
  static constexpr const char* loads[] = {"ld.global.nc", "ld.global.nc.L1::no_allocate", "ld.global.cs"};
  static constexpr const char* stores[] = {"st.global", "st.global.cs"};
  return fmt::format(
      "#define K {}\n#define M {}\n#define THREADS {}\n#define W {}\n#define LOAD \"{}\"\n#define STORE "
      "\"{}\"\n"
      "#define BLOCKS_HINT {}\n#define PACK {}\n#define UNROLL_ROWS 4\n#define UNROLL_GROUPS {}\n#define "
      "ROWS {}\n"
      "#define UNROLL {}\n#define IN_PARAMETERS {}\n",
      s.k, s.m, a.threads, a.w, loads[a.load], stores[a.store],
      a.blocks == 0 ? "" : fmt::format(", {}", a.blocks), a.pack, a.unroll_groups ? 32 : 1, a.rows, a.unroll,
      a.in_parameters ? 1 : 0);
}

Variant any(Shape s, const Any& a, const char* kernel, const char* text, const char* entry) {
  Variant v;
  v.kernel = kernel;
  v.settings =
      fmt::format("w{} t{} b{} ld{} st{} waves{}", a.w, a.threads, a.blocks, a.load, a.store, a.waves);
  v.k = s.k, v.m = s.m, v.threads = a.threads, v.waves = a.waves;
  v.passes.push_back({definitions(s, a) + common_text + text, entry, 0, s.m});
  return v;
}

Variant bitmma(Shape s, Any a) {
  Variant v = any(s, a, "bitmma", bitmma_text, "ec_bitmma");
  v.settings += fmt::format(" pack{}{}", a.pack, a.unroll_groups ? " unrolled" : "");
  v.extra = Extra::fragments;
  v.warp_tile = 32 * a.w;
  return v;
}

Variant table(Shape s, Any a) {
  Variant v = any(s, a, "table", table_text, "ec_table");
  v.settings += fmt::format(" rows{} unroll{}{}", a.rows, a.unroll, a.in_parameters ? " params" : " shared");
  v.extra = a.in_parameters ? Extra::table_parameters : Extra::tables;
  v.warp_tile = 128 * a.w;
  v.grid_y = (s.m + a.rows - 1) / a.rows;
  return v;
}

Variant xor_kernel(Shape s, Any a) {
  Variant v = any(s, a, "xor", xor_text, "ec_xor");
  v.verified = false;
  return v;
}

void add_generated(std::vector<Variant>& list) {
  using S = Strategy;
  const EmitOptions base;
  for (Shape s : {Shape{4, 2}, {6, 3}, {8, 3}, {8, 4}, {10, 4}, {12, 4}, {16, 4}, {20, 4}}) {
    list.push_back(generated(s, {S::covering, 2}, base));
    list.push_back(
        generated(s, {S::covering, 2}, {.load = LoadHint::no_allocate, .store = StoreHint::streaming}));
  }
  for (Shape s : {Shape{8, 3}, {10, 4}, {20, 4}}) {
    list.push_back(generated(s, {S::nibble_sums, 1}, base));
    list.push_back(generated(s, {S::covering, 1}, base));
    list.push_back(generated(s, {S::covering, 1}, {.prefetch = 2}));
    list.push_back(generated(s, {S::covering, 1}, {.prefetch = 4}));
    for (unsigned prefetch : {0u, 2u, 3u})
      list.push_back(generated(s, {S::covering, 2}, {.prefetch = prefetch}));
    for (unsigned threads : {64u, 128u, 512u})
      list.push_back(generated(s, {S::covering, 2}, {.threads = threads}));
    list.push_back(generated(s, {S::covering, 2}, {.threads = 128, .min_blocks = 8}));
    list.push_back(generated(s, {S::covering, 2}, {.threads = 256, .min_blocks = 4}));
    for (LoadHint l : {LoadHint::no_allocate, LoadHint::streaming, LoadHint::no_allocate_256})
      list.push_back(generated(s, {S::covering, 2}, {.load = l}));
    for (StoreHint h : {StoreHint::streaming, StoreHint::no_allocate})
      list.push_back(generated(s, {S::covering, 2}, {.store = h}));
    for (Transposition t : {Transposition::multiply_left, Transposition::multiply_both})
      list.push_back(generated(s, {S::covering, 2}, {.transposition = t}));
    list.push_back(generated(s, {S::covering, 2}, {.lockstep = true}));
    for (unsigned waves : {1u, 2u, 4u, 8u, 16u}) list.push_back(generated(s, {S::covering, 2}, base, waves));
  }
}

void add_wide(std::vector<Variant>& list) {
  using S = Strategy;
  const Shape s{32, 8};
  list.push_back(generated(s, {S::covering, 1}, {}));
  list.push_back(generated(s, {S::covering, 2}, {}));
  for (unsigned threads : {128u, 256u, 512u})
    list.push_back(generated(s, {S::covering, 1}, {.threads = threads, .lockstep = true}));
  list.push_back(
      generated(s, {S::covering, 1}, {.threads = 256, .min_blocks = 2, .prefetch = 2, .lockstep = true}));
  list.push_back(generated(s, {S::covering, 2}, {.threads = 256, .lockstep = true}));
  list.push_back(generated(s, {S::covering, 1}, {.threads = 256, .lockstep = true}, 1));
  for (Transposition t : {Transposition::multiply_left, Transposition::multiply_both})
    list.push_back(generated(s, {S::covering, 1}, {.threads = 256, .lockstep = true, .transposition = t}));
  list.push_back(generated(s, {S::covering, 2}, {}, 0, 4));
  const Shape wide{64, 16};
  for (unsigned threads : {128u, 256u})
    list.push_back(
        generated(wide, {S::covering, 1}, {.threads = threads, .min_blocks = 1, .lockstep = true}));
  list.push_back(generated(wide, {S::covering, 1}, {.threads = 256, .min_blocks = 1, .lockstep = true}, 1));
  for (unsigned threads : {256u, 512u})
    list.push_back(generated(wide, {S::covering, 1}, {.threads = threads, .lockstep = true}, 0, 8));
  list.push_back(generated(wide, {S::covering, 2}, {.threads = 256, .lockstep = true}, 0, 4));
}

void add_any(std::vector<Variant>& list) {
  for (Shape s : {Shape{4, 2}, {8, 3}, {10, 4}, {20, 4}, {32, 8}, {64, 16}, {128, 32}}) {
    for (int pack : {0, 1}) list.push_back(bitmma(s, {.w = s.k > 64 ? 2u : 4u, .pack = pack}));
    for (unsigned waves : {1u, 4u, 16u}) list.push_back(bitmma(s, {.w = s.k > 64 ? 2u : 4u, .waves = waves}));
    list.push_back(bitmma(s, {.w = s.k > 64 ? 1u : 2u}));
    list.push_back(bitmma(s, {.threads = 128, .w = s.k > 64 ? 2u : 4u}));
    list.push_back(bitmma(s, {.w = s.k > 64 ? 2u : 4u, .load = 1, .store = 1}));
    if (s.m > 8) list.push_back(bitmma(s, {.w = s.k > 64 ? 2u : 4u, .unroll_groups = true}));
    if (s.k > 32) list.push_back(bitmma(s, {.threads = 128, .blocks = 5, .w = s.k > 64 ? 2u : 4u}));
    if (s.k <= 10) list.push_back(bitmma(s, {.threads = 256, .blocks = 5, .w = 4}));
  }
  for (Shape s : {Shape{8, 3}, {10, 4}, {20, 4}, {32, 8}}) {
    const unsigned all = s.m;
    for (unsigned w : {4u, 8u})
      for (unsigned unroll : {1u, 2u}) {
        list.push_back(table(s, {.w = w, .rows = all, .unroll = unroll}));
        if (s.k * s.m <= 80)
          list.push_back(table(s, {.w = w, .rows = all, .unroll = unroll, .in_parameters = true}));
      }
    list.push_back(table(s, {.w = 8, .rows = all, .unroll = 2, .waves = 8}));
    list.push_back(table(s, {.threads = 128, .w = 8, .rows = all, .unroll = 2}));
    list.push_back(table(s, {.w = 4, .rows = all, .unroll = 4}));
    list.push_back(table(s, {.w = 4, .rows = all, .unroll = 2, .waves = 8, .load = 1, .store = 1}));
    if (s.m == 8)
      for (unsigned w : {4u, 8u}) list.push_back(table(s, {.w = w, .rows = 4, .unroll = 2}));
  }
}

}  // namespace

Matrix coding(unsigned k, unsigned m) { return ec::gf::coding_matrix(ec::gf::Technique::cauchy, k, m); }

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (Shape s : {Shape{4, 2},
                  {6, 3},
                  {8, 3},
                  {8, 4},
                  {10, 4},
                  {12, 4},
                  {16, 4},
                  {20, 4},
                  {32, 8},
                  {64, 16},
                  {128, 32}})
    for (unsigned waves : {0u, 8u}) list.push_back(xor_kernel(s, {.waves = waves}));
  Variant rate = any({1, 1}, {.waves = 1}, "mma_rate", mma_rate_text, "ec_mma_rate");
  rate.verified = false;
  list.push_back(rate);
  add_any(list);
  add_generated(list);
  add_wide(list);
  return list;
}

std::vector<std::uint32_t> fragments(const Matrix& matrix) {
  const unsigned k = matrix.cols(), m = matrix.rows(), groups = ((k + 3) / 4 + 3) / 4, rest = m % 8;
  const bool half = rest != 0 && rest <= 4;
  const unsigned full = m / 8 + (rest > 4 ? 1 : 0), blocks = 4 * full + (half ? 2 : 0);
  std::vector<std::uint32_t> words(std::size_t{blocks} * groups * 32 * 2);
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned i = 0; i < groups; ++i)
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned h = 0; h < 2; ++h) {
          const unsigned g = lane / 4, t = lane % 4, b = block % 4;
          const bool in_half = block >= 4 * full;
          const unsigned target = in_half ? full * 8 + g / 2 : block / 4 * 8 + g;
          const unsigned bit = in_half ? 4 * (g % 2) + 2 * b + h : 2 * b + h;
          std::uint32_t word = 0;
          for (unsigned q = 0; q < 4; ++q) {
            const unsigned source = (4 * i + q) * 4 + t;
            if (source >= k || target >= m) continue;
            std::uint8_t rows[8];
            bit_matrix(matrix(target, source), rows);
            word |= std::uint32_t{rows[bit]} << (8 * q);
          }
          words[((std::size_t{block} * groups + i) * 32 + lane) * 2 + h] = word;
        }
  return words;
}

std::vector<std::uint32_t> tables(const Matrix& matrix) {
  std::vector<std::uint32_t> words;
  for (unsigned s = 0; s < matrix.cols(); ++s)
    for (unsigned t = 0; t < matrix.rows(); ++t) {
      std::uint32_t entry[8] = {};
      const auto set = [&](unsigned word, unsigned value, unsigned shift) {
        const auto product = ec::gf::mul(matrix(t, s), static_cast<std::uint8_t>(value << shift));
        entry[word + value / 4] |= std::uint32_t{product} << (8 * (value % 4));
      };
      for (unsigned v = 0; v < 8; ++v) set(0, v, 0), set(2, v, 3);
      for (unsigned v = 0; v < 4; ++v) set(4, v, 6);
      words.insert(words.end(), entry, entry + 8);
    }
  return words;
}

}  // namespace probe
