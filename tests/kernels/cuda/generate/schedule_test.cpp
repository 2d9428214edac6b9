// Every schedule is carried out by the CPU on random bytes and compared with the oracle; and the text of
// generated kernels. That a kernel does what its schedule says is proven on a GPU (generated_test): inline
// PTX runs nowhere else.
#include "kernels/cuda/generate/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/emit.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::kernels::cuda {
namespace {

using test::Random;
using test::oracle::Bytes;

constexpr std::size_t unit = 32;

/// The eight words of a unit into eight bit planes, and back: the emitted transposition, instruction by
/// instruction.
void transpose(std::uint32_t w[8]) {
  const auto swap_fields = [&](unsigned a, unsigned b, unsigned shift, std::uint32_t mask) {
    const std::uint32_t left = w[b] << shift, right = w[a] >> shift;
    w[a] = (mask & w[a]) | (~mask & left);
    w[b] = (mask & right) | (~mask & w[b]);
  };
  for (unsigned i : {0, 1, 2, 3}) swap_fields(i, i + 4, 4, 0x0f0f0f0f);
  for (unsigned i : {0, 1, 4, 5}) swap_fields(i, i + 2, 2, 0x33333333);
  for (unsigned i : {0, 2, 4, 6}) swap_fields(i, i + 1, 1, 0x55555555);
}

/// The targets that the kernel printed from `schedule` makes of a unit of each source, XOR by XOR. Throws if
/// the schedule reads a register that nothing has written, or one out of range.
std::vector<Bytes> interpret(const Schedule& schedule, const std::vector<Bytes>& sources) {
  // Registers of a step hold nothing until they are written.
  std::vector<std::optional<std::uint32_t>> values;
  std::vector<std::uint32_t> accumulators(8 * std::size_t{schedule.targets}, 0u);
  const auto get = [&](Register r) -> std::uint32_t {
    if (r == no_register) return 0;
    if (r >= accumulator_base) return accumulators.at(r - accumulator_base);
    return values.at(r).value();
  };
  for (const Step& step : schedule.steps) {
    values.assign(8 * std::size_t{step.count} + step.sums, std::nullopt);
    for (unsigned i = 0; i < step.count; ++i) {
      std::uint32_t words[8];
      std::memcpy(words, sources[step.first + i].data(), unit);
      transpose(words);
      std::copy_n(words, 8, values.begin() + 8 * i);
    }
    for (const Xor& x : step.xors) {
      const std::uint32_t sum = get(x.a) ^ get(x.b) ^ get(x.c);
      if (x.to >= accumulator_base)
        accumulators.at(x.to - accumulator_base) = sum;
      else
        values.at(x.to) = sum;
    }
  }
  std::vector<Bytes> targets(schedule.targets, Bytes(unit));
  for (unsigned t = 0; t < schedule.targets; ++t) {
    transpose(&accumulators[8 * std::size_t{t}]);
    std::memcpy(targets[t].data(), &accumulators[8 * std::size_t{t}], unit);
  }
  return targets;
}

/// Whether interpreter and oracle agree on random sources.
bool right(const gf::Matrix& matrix, Random& random) {
  const auto sources = random.chunks(matrix.cols(), unit);
  return interpret(make_schedule(matrix), sources) == test::oracle::apply(test::to_rows(matrix), sources);
}

TEST(Schedule, IsRightForEveryCoefficientAndRandomMatrices) {
  Random random(2);
  for (unsigned c = 0; c < 256; ++c)
    ASSERT_TRUE(right(test::to_matrix({{static_cast<std::uint8_t>(c)}}), random)) << c;
  for (unsigned i = 0; i < 1300; ++i) {
    // Of few targets a row may lie further than any one sum brings it.
    const bool few = i < 300;
    const auto matrix = test::to_matrix(
        test::random_matrix(1 + random.below(few ? 3 : 8), few ? 1 : 1 + random.below(24), i));
    ASSERT_TRUE(right(matrix, random)) << "matrix " << i;
  }
}

TEST(Schedule, IsRightForEncodeMatrices) {
  Random random(4);
  for (const auto technique : {gf::Technique::reed_sol_van, gf::Technique::cauchy})
    for (const auto& [k, m] :
         {std::pair{4u, 2u}, {6u, 3u}, {8u, 3u}, {8u, 4u}, {10u, 4u}, {20u, 4u}, {64u, 16u}}) {
      if (!gf::shape_error(technique, k, m).empty()) continue;
      ASSERT_TRUE(right(gf::coding_matrix(technique, k, m), random)) << k << "+" << m;
    }
}

// What the arithmetic of the chip leaves room for: an H200 has 5 such instructions a source byte at 10+4
// before it, and not memory, is the limit. A transposition, one of each source and target, is 48.
TEST(Schedule, CostStaysWithinTheChipsArithmetic) {
  unsigned xors = 0, widest = 0;
  for (const Step& step : make_schedule(gf::coding_matrix(gf::Technique::cauchy, 10, 4)).steps) {
    xors += static_cast<unsigned>(step.xors.size());
    widest = std::max(widest, 8 * step.count + step.sums);
  }
  EXPECT_LT((xors + 48.0 * 14) / (32 * 10), 3.5);
  EXPECT_LE(8 * 4 + widest + 8, 96u) << "accumulators, the widest step and one source that is loaded early";
}

std::string text(unsigned k, unsigned m) {
  return emit("code", gf::coding_matrix(gf::Technique::cauchy, k, m));
}

TEST(Emit, IsTheTextThatWasMeasured) {
  // FNV-1a: another text is another kernel, to be measured anew.
  std::uint64_t all = 0xcbf29ce484222325;
  for (const auto& [k, m] : {std::pair{1u, 1u}, {4u, 2u}, {8u, 3u}, {10u, 4u}, {20u, 4u}, {32u, 8u}})
    for (const char c : text(k, m)) all = (all ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  EXPECT_EQ(all, 3011058015426290443u);
  EXPECT_NE(text(10, 4), text(10, 3));
}

}  // namespace
}  // namespace ec::kernels::cuda
