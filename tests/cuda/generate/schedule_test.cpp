// Every schedule computes its matrix: the interpreter's bytes against the oracle's, which shares no code with
// it.
#include "kernels/cuda/generate/schedule.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "kernels/cuda/generate/interpreter.hpp"
#include "tests/cuda/generate/matrices.hpp"
#include "tests/support/oracle.hpp"

namespace ec::kernels::cuda {
namespace {

using test::Random;
using test::oracle::Bytes;

constexpr ScheduleOptions all_options[] = {
    {Strategy::covering, 2}, {Strategy::covering, 1}, {Strategy::nibble_sums, 2}, {Strategy::nibble_sums, 1}};

test::oracle::Rows rows_of(const gf::Matrix& matrix) {
  test::oracle::Rows rows;
  for (unsigned r = 0; r < matrix.rows(); ++r) rows.emplace_back(matrix.row(r).begin(), matrix.row(r).end());
  return rows;
}

/// Interprets over targets that hold `before`.
std::vector<Bytes> interpreted(const Schedule& schedule, const std::vector<Bytes>& sources,
                               std::vector<Bytes> before, bool accumulate) {
  std::vector<const std::uint8_t*> from;
  std::vector<std::uint8_t*> to;
  for (const Bytes& s : sources) from.push_back(s.data());
  for (Bytes& t : before) to.push_back(t.data());
  interpret(schedule, from, to, sources[0].size(), accumulate);
  return before;
}

void expect_computes(const gf::Matrix& matrix, const ScheduleOptions& options, Random& random) {
  const Schedule schedule = make_schedule(matrix, options);
  ASSERT_EQ(schedule_error(schedule), "");
  const std::size_t bytes = 1 + random.below(100);
  const auto sources = random.chunks(matrix.cols(), bytes);
  const auto before = random.chunks(matrix.rows(), bytes);
  auto expected = test::oracle::apply(rows_of(matrix), sources);
  ASSERT_EQ(interpreted(schedule, sources, before, false), expected)
      << matrix.rows() << " x " << matrix.cols() << ", " << bytes << " bytes, " << name(options.strategy);
  for (std::size_t t = 0; t < before.size(); ++t)
    for (std::size_t i = 0; i < bytes; ++i) expected[t][i] ^= before[t][i];
  ASSERT_EQ(interpreted(schedule, sources, before, true), expected);
}

void expect_all_compute(gf::Matrix (*make)(Random&), unsigned count, std::uint64_t seed) {
  Random random(seed);
  for (unsigned i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "matrix " << i << " of seed " << seed);
    expect_computes(make(random), all_options[i % std::size(all_options)], random);
  }
}

TEST(Schedule, ComputesCodingMatrices) { expect_all_compute(test::random_coding_matrix, 300, 1); }
TEST(Schedule, ComputesDecodeMatrices) { expect_all_compute(test::random_decode_matrix, 400, 2); }
TEST(Schedule, ComputesAnyMatrices) { expect_all_compute(test::random_matrix, 300, 3); }

TEST(Schedule, ComputesEveryCoefficient) {
  Random random(4);
  for (unsigned c = 0; c < 256; ++c)
    for (const ScheduleOptions& options : all_options) {
      gf::Matrix matrix(1, 1);
      matrix(0, 0) = static_cast<std::uint8_t>(c);
      expect_computes(matrix, options, random);
    }
}

TEST(Schedule, ComputesWideMatrices) {
  Random random(5);
  for (const auto [k, m] : {std::pair{32u, 8u}, {64u, 16u}, {128u, 32u}, {251u, 4u}})
    expect_computes(gf::coding_matrix(gf::Technique::cauchy, k, m), {}, random);
}

TEST(Schedule, ComputesEveryLength) {
  Random random(6);
  const gf::Matrix matrix = gf::coding_matrix(gf::Technique::cauchy, 3, 2);
  const Schedule schedule = make_schedule(matrix);
  for (std::size_t bytes = 1; bytes <= 100; ++bytes) {
    const auto sources = random.chunks(3, bytes);
    EXPECT_EQ(interpreted(schedule, sources, random.chunks(2, bytes), false),
              test::oracle::apply(rows_of(matrix), sources))
        << bytes;
  }
}

TEST(Schedule, IsDeterministic) {
  Random random(7);
  for (unsigned i = 0; i < 100; ++i) {
    const gf::Matrix matrix = test::random_matrix(random);
    for (const ScheduleOptions& options : all_options)
      EXPECT_EQ(make_schedule(matrix, options), make_schedule(matrix, options));
  }
}

/// The interpreter sees errors: a schedule with any one instruction left out or changed is wrong.
TEST(Schedule, EveryInstructionMatters) {
  Random random(8);
  const gf::Matrix matrix = gf::coding_matrix(gf::Technique::cauchy, 4, 3);
  const auto sources = random.chunks(4, 64);
  const auto before = random.chunks(3, 64);
  const Schedule good = make_schedule(matrix);
  const auto expected = interpreted(good, sources, before, false);
  for (std::size_t s = 0; s < good.steps.size(); ++s)
    for (std::size_t i = 0; i < good.steps[s].xors.size(); ++i) {
      Schedule bad = good;
      bad.steps[s].xors.erase(bad.steps[s].xors.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_TRUE(!schedule_error(bad).empty() || interpreted(bad, sources, before, false) != expected)
          << "step " << s << ", instruction " << i;
    }
}

TEST(Schedule, MalformedSchedulesAreNamed) {
  const Schedule good = make_schedule(gf::coding_matrix(gf::Technique::cauchy, 4, 2));
  const auto error_of = [&](auto change) {
    Schedule bad = good;
    change(bad);
    return schedule_error(bad);
  };
  EXPECT_EQ(schedule_error(good), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps.pop_back(); }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[1].first = 0; }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[1].count = 3; }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[0].xors[0].a = no_register; }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[0].xors[0].b = 16 + 100; }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[0].xors[0].a = s.steps[0].xors[0].to; }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[0].xors[0].to = 0; }), "");
  EXPECT_NE(error_of([](Schedule& s) { s.steps[0].xors.back().to = accumulator_base + 16; }), "");
}

/// 10+4, the most used of the larger codes. Each source costs its transposition (48), one instruction a
/// target plane (32, fewer where planes are in no sum) and the shared sums; each target another
/// transposition.
TEST(Cost, OfTenPlusFour) {
  for (const auto technique : {gf::Technique::reed_sol_van, gf::Technique::cauchy}) {
    const gf::Matrix matrix = gf::coding_matrix(technique, 10, 4);
    const ScheduleCost covering = cost(make_schedule(matrix, {Strategy::covering, 2}));
    const ScheduleCost nibble_sums = cost(make_schedule(matrix, {Strategy::nibble_sums, 2}));
    RecordProperty(std::string(gf::name(technique)) + "_per_source_byte",
                   std::to_string(covering.per_source_byte()));
    EXPECT_EQ(covering.sources, 10u);
    EXPECT_EQ(covering.transpositions, 14u);
    EXPECT_LE(covering.xors, nibble_sums.xors);
    EXPECT_LE(covering.xors, 10u * (32 + 13));
    EXPECT_GE(covering.xors, 10u * 32 / 2);
    EXPECT_LE(covering.per_source_byte(), 3.6);
    EXPECT_GE(covering.per_source_byte(), 48.0 * 14 / 320);
    EXPECT_GT(covering.live_registers, 8 * 4u + 8 * 2u);
    EXPECT_LE(covering.live_registers, 96u);
  }
}

TEST(Cost, CountsWhatThereIs) {
  Random random(9);
  for (unsigned i = 0; i < 100; ++i) {
    const gf::Matrix matrix = test::random_matrix(random);
    const Schedule schedule = make_schedule(matrix);
    std::size_t xors = 0;
    for (const Step& step : schedule.steps) xors += step.xors.size();
    EXPECT_EQ(cost(schedule).xors, xors);
    // A target plane takes one instruction a source, a source at most 22 sums.
    EXPECT_LE(xors, std::size_t{matrix.cols()} * (8 * matrix.rows() + 22));
  }
}

TEST(BitMatrix, IsTheProductOfEachBit) {
  for (unsigned c = 0; c < 256; ++c) {
    std::uint8_t rows[8];
    bit_matrix(static_cast<std::uint8_t>(c), rows);
    for (unsigned v = 0; v < 256; ++v) {
      unsigned product = 0;
      for (unsigned i = 0; i < 8; ++i) product |= (std::popcount(rows[i] & v) & 1u) << i;
      ASSERT_EQ(product, test::oracle::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(v)));
    }
  }
}

}  // namespace
}  // namespace ec::kernels::cuda
