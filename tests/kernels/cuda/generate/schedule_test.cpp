// Every schedule is run by the interpreter on random bytes and compared with the oracle; and the text of
// generated kernels. That a kernel does what its schedule says is proven on a GPU (generated_test): inline
// PTX runs nowhere else.
#include "kernels/cuda/generate/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "kernels/cuda/generate/emit.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/generate/interpreter.hpp"

namespace ec::kernels::cuda {
namespace {

using test::Random;
using test::oracle::Bytes;

/// Whether interpreter and oracle agree on random sources, for transform and accumulate.
bool right(const gf::Matrix& matrix, Random& random, std::size_t bytes) {
  const Schedule schedule = make_schedule(matrix);
  const auto sources = random.chunks(matrix.cols(), bytes);
  const auto products = test::oracle::apply(test::to_rows(matrix), sources);
  auto targets = random.chunks(matrix.rows(), bytes);
  auto wanted = targets;
  std::vector<const std::uint8_t*> from;
  std::vector<std::uint8_t*> to;
  for (const Bytes& s : sources) from.push_back(s.data());
  for (Bytes& t : targets) to.push_back(t.data());
  for (unsigned t = 0; t < matrix.rows(); ++t)
    for (std::size_t i = 0; i < bytes; ++i) wanted[t][i] ^= products[t][i];
  interpret(schedule, from, to, bytes, true);
  const bool added = targets == wanted;
  interpret(schedule, from, to, bytes, false);
  return added && targets == products;
}

TEST(Schedule, IsRightForEveryCoefficientAndRandomMatrices) {
  Random random(2);
  gf::Matrix one(1, 1);
  for (unsigned c = 0; c < 256; ++c) {
    one(0, 0) = static_cast<std::uint8_t>(c);
    ASSERT_TRUE(right(one, random, 64)) << c;
  }
  for (unsigned i = 0; i < 1300; ++i) {
    // Of few targets a row may lie further than any one sum brings it.
    const bool few = i < 300;
    const auto matrix = test::to_matrix(
        test::random_matrix(1 + random.below(few ? 3 : 8), few ? 1 : 1 + random.below(24), i));
    ASSERT_TRUE(right(matrix, random, 1 + random.below(100))) << "matrix " << i;
  }
}

TEST(Schedule, IsRightForEncodeAndDecodeMatrices) {
  Random random(4);
  for (const auto technique : {gf::Technique::reed_sol_van, gf::Technique::cauchy})
    for (const auto& [k, m] :
         {std::pair{4u, 2u}, {6u, 3u}, {8u, 3u}, {8u, 4u}, {10u, 4u}, {20u, 4u}, {64u, 16u}}) {
      if (!gf::shape_error(technique, k, m).empty()) continue;
      const gf::Matrix coding = gf::coding_matrix(technique, k, m);
      ASSERT_TRUE(right(coding, random, 96)) << k << "+" << m;
      for (unsigned lost = 1; lost <= m; ++lost) {
        gf::ErasureSignature signature{gf::ChunkSet::first(k + m), {}};
        while (signature.wanted.count() < lost) {
          const unsigned chunk = random.below(k + m);
          signature.wanted.insert(chunk);
          signature.available.erase(chunk);
        }
        const auto plan = gf::make_decode_plan(coding, signature);
        ASSERT_TRUE(plan);
        ASSERT_TRUE(right(plan->matrix, random, 96)) << k << "+" << m << " " << lost;
      }
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
