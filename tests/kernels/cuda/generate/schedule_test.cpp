// Every schedule is run by the interpreter on random bytes and compared with the reference back end.
#include "kernels/cuda/generate/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/cuda/generate/interpreter.hpp"

namespace ec::kernels::cuda {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937;

Bytes random_bytes(Random& random, std::size_t count) {
  Bytes bytes(count);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
  return bytes;
}

gf::Matrix random_matrix(Random& random, unsigned rows, unsigned cols) {
  gf::Matrix matrix(rows, cols);
  // An eighth of the rows zeros, an eighth ones; of the other coefficients a quarter zero or one.
  for (unsigned r = 0; r < rows; ++r) {
    const unsigned kind = random() % 8;
    for (unsigned c = 0; c < cols; ++c)
      matrix(r, c) = kind < 2 ? kind : random() % 4 == 0 ? random() % 2 : random() % 256;
  }
  return matrix;
}

/// Whether interpreter and reference agree on random sources, for transform and accumulate.
::testing::AssertionResult right(const gf::Matrix& matrix, const Schedule& schedule, Random& random,
                                 std::size_t bytes) {
  std::vector<Bytes> sources(matrix.cols()), wanted(matrix.rows());
  for (auto& s : sources) s = random_bytes(random, bytes);
  for (auto& w : wanted) w = random_bytes(random, bytes);
  for (const bool accumulate : {true, false}) {
    std::vector<Bytes> got = wanted;
    Program program(matrix);
    std::vector<Source> from;
    std::vector<Target> to;
    std::vector<const std::uint8_t*> source_bytes;
    std::vector<std::uint8_t*> target_bytes;
    for (const auto& s : sources) from.push_back({s.data()}), source_bytes.push_back(s.data());
    for (auto& w : wanted) to.push_back({w.data()});
    for (auto& g : got) target_bytes.push_back(g.data());
    const Job job{&program, from, to, bytes};
    const Status status =
        accumulate ? reference_backend().accumulate(job) : reference_backend().transform(job);
    if (status != Status::ok) return ::testing::AssertionFailure() << "reference: " << name(status);
    interpret(schedule, source_bytes, target_bytes, bytes, accumulate);
    if (got != wanted)
      return ::testing::AssertionFailure()
             << matrix.rows() << " x " << matrix.cols() << " accumulate " << accumulate;
  }
  return ::testing::AssertionSuccess();
}

TEST(Transposition, PutsBitBOfEveryByteIntoPlaneBAndBack) {
  Random random(1);
  std::uint32_t words[8], planes[8];
  for (int i = 0; i < 8; ++i) planes[i] = words[i] = random();
  transpose(planes);
  for (unsigned plane = 0; plane < 8; ++plane)
    for (unsigned byte = 0; byte < 32; ++byte) {
      // Byte `byte` of the unit lies at the same place of every plane, whichever it is: here bit 8 (byte % 4)
      // + byte / 4, since bit j of a word goes to word j % 8.
      const unsigned bit = words[byte / 4] >> (8 * (byte % 4) + plane) & 1;
      EXPECT_EQ(planes[plane] >> (8 * (byte % 4) + byte / 4) & 1, bit) << plane << " " << byte;
    }
  transpose(planes);
  EXPECT_TRUE(std::equal(words, words + 8, planes));
}

TEST(Schedule, IsRightForRandomMatrices) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const gf::Matrix matrix = random_matrix(random, 1 + random() % 8, 1 + random() % 24);
    ASSERT_TRUE(right(matrix, make_schedule(matrix), random, 1 + random() % 100)) << "matrix " << i;
  }
}

TEST(Schedule, IsRightForEveryCoefficient) {
  Random random(3);
  gf::Matrix matrix(1, 1);
  for (unsigned c = 0; c < 256; ++c) {
    matrix(0, 0) = static_cast<std::uint8_t>(c);
    ASSERT_TRUE(right(matrix, make_schedule(matrix), random, 64)) << c;
  }
}

// Few targets: a row may lie further than any one sum brings it.
TEST(Schedule, IsRightForFewTargets) {
  Random random(6);
  for (int i = 0; i < 300; ++i) {
    const gf::Matrix matrix = random_matrix(random, 1 + random() % 3, 1);
    ASSERT_TRUE(right(matrix, make_schedule(matrix), random, 32)) << i;
  }
}

TEST(Schedule, IsRightForEncodeAndDecodeMatrices) {
  Random random(4);
  for (const auto technique : {gf::Technique::reed_sol_van, gf::Technique::cauchy})
    for (const auto& [k, m] : {std::pair{4u, 2u},
                               {6u, 3u},
                               {8u, 3u},
                               {8u, 4u},
                               {10u, 4u},
                               {12u, 4u},
                               {16u, 4u},
                               {20u, 4u},
                               {32u, 8u},
                               {64u, 16u}}) {
      if (!gf::shape_error(technique, k, m).empty()) continue;
      const gf::Matrix coding = gf::coding_matrix(technique, k, m);
      ASSERT_TRUE(right(coding, make_schedule(coding), random, 96)) << k << "+" << m;
      for (unsigned lost = 1; lost <= m; ++lost) {
        gf::ErasureSignature signature{gf::ChunkSet::first(k + m), {}};
        while (signature.wanted.count() < lost) {
          const unsigned chunk = random() % (k + m);
          signature.wanted.insert(chunk);
          signature.available.erase(chunk);
        }
        const auto plan = gf::make_decode_plan(coding, signature);
        ASSERT_TRUE(plan);
        ASSERT_TRUE(right(plan->matrix, make_schedule(plan->matrix), random, 96))
            << k << "+" << m << " " << lost;
      }
    }
}

TEST(Schedule, IsDeterministic) {
  const gf::Matrix matrix = gf::coding_matrix(gf::Technique::cauchy, 10, 4);
  EXPECT_EQ(make_schedule(matrix), make_schedule(matrix));
}

TEST(Schedule, WithAnyOneXorLeftOutIsFoundOut) {
  Random random(5);
  const gf::Matrix matrix = gf::coding_matrix(gf::Technique::cauchy, 4, 3);
  const Schedule good = make_schedule(matrix);
  for (std::size_t s = 0; s < good.steps.size(); ++s)
    for (std::size_t i = 0; i < good.steps[s].xors.size(); ++i) {
      Schedule bad = good;
      bad.steps[s].xors.erase(bad.steps[s].xors.begin() + static_cast<std::ptrdiff_t>(i));
      try {
        EXPECT_FALSE(right(matrix, bad, random, 64)) << "step " << s << ", XOR " << i;
      } catch (const std::logic_error&) {  // a register is read that nothing writes now
      }
    }
}

TEST(Schedule, ReadingAnUnwrittenRegisterIsRefused) {
  Schedule schedule{1, 1, {Step{0, 1, 1, {Xor{accumulator_base, 8, no_register, no_register}}}}};
  const Bytes source(32);
  Bytes target(32);
  const std::uint8_t* sources[] = {source.data()};
  std::uint8_t* targets[] = {target.data()};
  EXPECT_THROW(interpret(schedule, sources, targets, 32), std::logic_error);
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

}  // namespace
}  // namespace ec::kernels::cuda
