// The stages against the oracle's product by the matrix. They are carried out here as their header describes
// them.
#include "gf/cauchy_stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "tests/common/oracle.hpp"

namespace ec::test {
namespace {

using gf::CauchyStages;
using oracle::mul;

gf::Matrix cauchy(unsigned k, unsigned m) { return gf::coding_matrix(gf::Technique::cauchy, k, m); }

/// One butterfly at each pair of a level: u += factor v, v += u, or the same backwards.
void transform(const CauchyStages& stages, std::vector<std::uint8_t>& v, const std::uint8_t* factor,
               bool inverse) {
  for (unsigned step = 0; step < stages.log_points; ++step) {
    const unsigned half = 1u << (inverse ? step : stages.log_points - 1 - step);
    for (unsigned block = 0; block < v.size(); block += 2 * half, ++factor)
      for (unsigned j = block; j < block + half; ++j) {
        if (inverse) v[j + half] ^= v[j];
        v[j] ^= mul(*factor, v[j + half]);
        if (!inverse) v[j + half] ^= v[j];
      }
  }
}

/// `then` by the solution.
std::vector<std::uint8_t> solve(const CauchyStages& stages, const std::vector<std::uint8_t>& rows) {
  const gf::CauchySolution& s = stages.solution;
  const unsigned q = stages.points(), blocks = stages.row_blocks();
  std::vector<std::vector<std::uint8_t>> from(blocks, std::vector<std::uint8_t>(q));
  for (unsigned p = 0; p < blocks; ++p) {
    for (unsigned lane = 0; lane < q; ++lane)
      if (const auto row = stages.places[p * q + lane]; row != CauchyStages::none)
        from[p][lane] = mul(s.row_factors[p * q + lane], rows[row]);
    transform(stages, from[p], &s.inverse[p * (q - 1)], true);
  }
  std::vector<std::uint8_t> targets(stages.then.rows());
  for (unsigned t = 0; t < s.places.size() / q; ++t) {
    auto sum = from[0];
    for (unsigned p = 1; p < blocks; ++p)
      for (unsigned lane = 0; lane < q; ++lane)
        sum[lane] ^= mul(s.scales[t * (blocks - 1) + p - 1], from[p][lane]);
    transform(stages, sum, &s.forward[t * (q - 1)], false);
    for (unsigned lane = 0; lane < q; ++lane)
      if (const auto target = s.places[t * q + lane]; target != CauchyStages::none)
        targets[target] = mul(s.target_factors[t * q + lane], sum[lane]);
  }
  return targets;
}

std::vector<std::uint8_t> carry_out(const CauchyStages& stages, const std::vector<std::uint8_t>& sources) {
  const unsigned q = stages.points();
  std::vector<std::uint8_t> rows(stages.rows());
  std::vector<std::vector<std::uint8_t>> sums(stages.row_blocks(), std::vector<std::uint8_t>(q));
  for (unsigned block = 0; block < stages.source_blocks(); ++block) {
    std::vector<std::uint8_t> values(q);
    for (unsigned lane = 0; lane < q; ++lane)
      if (const auto source = stages.lanes[block * q + lane]; source != CauchyStages::none)
        values[lane] = sources[source];
    transform(stages, values, &stages.inverse[block * (q - 1)], true);
    for (unsigned p = 0; p < sums.size(); ++p)
      for (unsigned lane = 0; lane < q; ++lane)
        sums[p][lane] ^= mul(stages.scales[block * sums.size() + p], values[lane]);
  }
  for (unsigned p = 0; p < sums.size(); ++p) {
    transform(stages, sums[p], &stages.forward[p * (q - 1)], false);
    for (unsigned lane = 0; lane < q; ++lane)
      if (const auto row = stages.places[p * q + lane]; row != CauchyStages::none) rows[row] = sums[p][lane];
  }
  for (unsigned r = 0; r < rows.size(); ++r) {
    for (unsigned c = 0; c < stages.rest.size(); ++c)
      rows[r] ^= mul(stages.before(r, c), sources[stages.rest[c]]);
    if (stages.added[r] != CauchyStages::none) rows[r] ^= sources[stages.added[r]];
  }
  if (stages.then.rows() == 0) return rows;
  if (stages.solution.exists()) return solve(stages, rows);
  std::vector<std::uint8_t> targets(stages.then.rows());
  for (unsigned t = 0; t < targets.size(); ++t)
    for (unsigned r = 0; r < rows.size(); ++r) targets[t] ^= mul(stages.then(t, r), rows[r]);
  return targets;
}

void expect_product(const gf::Matrix& matrix, const CauchyStages& stages, std::mt19937& draw) {
  std::vector<std::uint8_t> sources(matrix.cols());
  for (auto& byte : sources) byte = static_cast<std::uint8_t>(draw());
  std::vector<std::uint8_t> expected(matrix.rows());
  for (unsigned t = 0; t < matrix.rows(); ++t)
    for (unsigned c = 0; c < matrix.cols(); ++c) expected[t] ^= mul(matrix(t, c), sources[c]);
  ASSERT_EQ(carry_out(stages, sources), expected);
}

TEST(CauchyStages, EncodeEveryShape) {
  std::mt19937 draw(1);
  for (unsigned k = 4; k <= 64; ++k)
    for (unsigned m = 2; m <= 16; ++m)
      for (unsigned most : {2u, 3u, 4u}) {
        SCOPED_TRACE(testing::Message() << k << "+" << m << ", blocks of " << (1u << most) << " at most");
        const auto matrix = cauchy(k, m);
        if (const auto stages = gf::cauchy_stages(matrix, {}, {}, most))
          expect_product(matrix, *stages, draw);
        else  // few rows, or blocks that are shared with rows: nothing to save
          ASSERT_TRUE(m <= 6 || k < 12);
      }
}

TEST(CauchyStages, EncodeWideShapesByFewProducts) {
  std::mt19937 draw(2);
  // Counted by an independent program, with factors 0 and 1 for free: at most so many.
  const struct {
    unsigned k, m, products;
  } shapes[] = {{16, 4, 44},   {32, 8, 100},   {48, 16, 208}, {64, 16, 260},
                {96, 16, 360}, {128, 32, 800}, {150, 4, 620}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.k << "+" << shape.m);
    const auto matrix = cauchy(shape.k, shape.m);
    const auto stages = gf::cauchy_stages(matrix, {}, {});
    ASSERT_TRUE(stages);
    EXPECT_LE(stages->products(), shape.products);
    expect_product(matrix, *stages, draw);
  }
}

/// `count` numbers from `first` on.
std::vector<unsigned> from_on(unsigned first, unsigned count, unsigned step = 1) {
  std::vector<unsigned> numbers(count);
  for (unsigned i = 0; i < count; ++i) numbers[i] = first + i * step;
  return numbers;
}

gf::DecodePlan plan_of(unsigned k, unsigned m, const std::vector<unsigned>& lost,
                       const std::vector<unsigned>& wanted) {
  const auto available = gf::ChunkSet::first(k + m) - gf::ChunkSet::of(lost);
  return gf::make_decode_plan(cauchy(k, m), {available, gf::ChunkSet::of(wanted)}).value();
}

TEST(CauchyStages, SolveRandomLosses) {
  std::mt19937 draw(3);
  int solved = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const unsigned k = 8 + draw() % 120, m = 2 + draw() % 31;
    auto lost = from_on(0, k + m);
    std::shuffle(lost.begin(), lost.end(), draw);
    lost.resize(1 + draw() % m);
    const auto plan = plan_of(k, m, lost, lost);
    const auto stages = gf::cauchy_stages(plan.matrix, plan.sources, plan.targets);
    SCOPED_TRACE(testing::Message() << k << "+" << m << ", " << lost.size() << " lost");
    if (stages) expect_product(plan.matrix, *stages, draw);
    solved += stages.has_value();
    EXPECT_TRUE(stages || lost.size() <= 6 || k < 16);
  }
  EXPECT_GE(solved, 1000);
}

/// The stages that decode all of `lost`, or those of `wanted`.
CauchyStages stages_without(unsigned k, unsigned m, const std::vector<unsigned>& lost, std::mt19937& draw,
                            const std::vector<unsigned>& wanted = {}) {
  const auto plan = plan_of(k, m, lost, wanted.empty() ? lost : wanted);
  auto stages = gf::cauchy_stages(plan.matrix, plan.sources, plan.targets).value();
  expect_product(plan.matrix, stages, draw);
  return stages;
}

TEST(CauchyStages, SolveByATransformWhereThatIsLess) {
  std::mt19937 draw(5);
  const auto products = [](const CauchyStages& stages) {
    return stages.solution.products(stages.log_points);
  };
  EXPECT_EQ(products(stages_without(64, 16, from_on(0, 16), draw)), 96u) << "256 by the matrix";
  EXPECT_EQ(products(stages_without(128, 32, from_on(0, 32), draw)), 224u) << "1,024 by the matrix";
  EXPECT_EQ(products(stages_without(128, 32, from_on(0, 32, 4), draw)), 608u) << "over eight blocks";
  EXPECT_TRUE(stages_without(100, 20, from_on(3, 20), draw).solution.exists()) << "amid blocks";
  EXPECT_TRUE(stages_without(64, 16, from_on(0, 16), draw, from_on(2, 12)).solution.exists());
  std::vector<unsigned> coding_too = from_on(0, 12);
  for (const unsigned c : {65u, 66u, 70u}) coding_too.push_back(c);
  EXPECT_TRUE(stages_without(64, 16, coding_too, draw, from_on(0, 12)).solution.exists()) << "rows apart";
  EXPECT_FALSE(stages_without(64, 16, from_on(0, 8, 8), draw).solution.exists()) << "over eight blocks: more";
  EXPECT_FALSE(stages_without(64, 16, from_on(60, 8), draw).solution.exists())
      << "coding chunks are made too";
  EXPECT_FALSE(stages_without(98, 20, from_on(78, 20), draw).solution.exists())
      << "rows and targets share a block";
}

/// Each target has one lane.
TEST(CauchyStages, SolveNoTargetTwiceByATransform) {
  auto plan = plan_of(64, 16, from_on(0, 16), from_on(0, 16));
  gf::Matrix repeated(17, 64);
  for (unsigned t = 0; t < 17; ++t)
    std::ranges::copy(plan.matrix.row(std::min(t, 15u)), repeated.row(t).begin());
  plan.targets.push_back(15);
  std::mt19937 draw(6);
  const auto stages = gf::cauchy_stages(repeated, plan.sources, plan.targets);
  ASSERT_TRUE(stages);
  expect_product(repeated, *stages, draw);
}

TEST(CauchyStages, EncodeWhatIsThereOfAStripe) {
  std::mt19937 draw(4);
  const auto whole = cauchy(64, 16);
  gf::Matrix part(16, 62);
  std::vector<std::uint8_t> sources, targets(16);
  for (unsigned c = 0; c < 64; ++c)
    if (c != 10 && c != 33) {
      for (unsigned r = 0; r < 16; ++r) part(r, static_cast<unsigned>(sources.size())) = whole(r, c);
      sources.push_back(static_cast<std::uint8_t>(c));
    }
  std::iota(targets.begin(), targets.end(), std::uint8_t{64});
  const auto stages = gf::cauchy_stages(part, sources, targets);
  ASSERT_TRUE(stages);
  expect_product(part, *stages, draw);
}

TEST(CauchyStages, AreOfNoOtherMatrix) {
  EXPECT_FALSE(gf::cauchy_stages(gf::coding_matrix(gf::Technique::reed_sol_van, 21, 4), {}, {}));
  auto matrix = cauchy(64, 16);
  matrix(15, 63) ^= 1;
  EXPECT_FALSE(gf::cauchy_stages(matrix, {}, {}));
  EXPECT_FALSE(gf::cauchy_stages(cauchy(64, 33), {}, {})) << "more rows than are kept";
  EXPECT_FALSE(gf::cauchy_stages({}, {}, {}));
  auto twice = cauchy(64, 16);
  std::ranges::copy(twice.row(3), twice.row(4).begin());
  EXPECT_FALSE(gf::cauchy_stages(twice, {}, {})) << "two rows of one point";
  // Numbers of chunks that the matrix is not of.
  std::vector<std::uint8_t> sources(64), targets(16);
  std::iota(sources.begin(), sources.end(), std::uint8_t{0});
  std::iota(targets.begin(), targets.end(), std::uint8_t{64});
  ASSERT_TRUE(gf::cauchy_stages(cauchy(64, 16), sources, targets));
  std::swap(targets[0], targets[1]);
  EXPECT_FALSE(gf::cauchy_stages(cauchy(64, 16), sources, targets));
  targets.pop_back();
  EXPECT_FALSE(gf::cauchy_stages(cauchy(64, 16), sources, targets));
}

}  // namespace
}  // namespace ec::test
