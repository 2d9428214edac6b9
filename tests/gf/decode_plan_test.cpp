// Decode plans against the oracle's inversion of the whole k x k system. Every loss of codes of up to 16
// chunks, and losses of wide ones, are in tests/kernels/patterns_test.cpp.
#include "gf/decode_plan.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <string_view>
#include <vector>

#include "gf/generator.hpp"
#include "tests/common/conformance.hpp"

namespace ec::test {
namespace {

using gf::ChunkSet;
using gf::make_decode_plan;

/// A code with its matrix twice: as the code under test has it, and as the oracle has it.
struct TestedCode {
  TestedCode(std::string_view technique, unsigned k_, unsigned m_)
      : k(k_),
        m(m_),
        coding(gf::coding_matrix(*gf::parse_technique(technique), k, m)),
        generator(oracle::generator(technique, k, m)) {}
  unsigned k, m;
  gf::Matrix coding;
  oracle::Rows generator;
};

std::vector<unsigned> to_list(const auto& chunks) { return {chunks.begin(), chunks.end()}; }

/// The chunks whose bits are set.
ChunkSet set_of(unsigned pattern) {
  ChunkSet set;
  for (; pattern != 0; pattern &= pattern - 1) set.insert(static_cast<unsigned>(std::countr_zero(pattern)));
  return set;
}

/// k independent chunks determine every other chunk in one way only, so the matrix itself must be the
/// oracle's.
void expect_right_plan(const TestedCode& code, const ChunkSet& available, const ChunkSet& wanted) {
  const auto plan = make_decode_plan(code.coding, {available, wanted});
  ASSERT_TRUE(plan);
  ASSERT_EQ(to_list(plan->targets), to_list(wanted - available));
  if (plan->targets.empty()) {
    ASSERT_TRUE(plan->sources.empty());
    return;
  }
  ASSERT_EQ(plan->sources.size(), code.k);
  ASSERT_TRUE(std::is_sorted(plan->sources.begin(), plan->sources.end()));
  ChunkSet sources;
  for (auto c : plan->sources) sources.insert(c);
  ASSERT_EQ(sources.count(), code.k);
  ASSERT_TRUE(available.includes(sources));
  ASSERT_TRUE(sources.includes(available & ChunkSet::first(code.k))) << "surviving data must be read";
  const auto expected =
      oracle::recovery_matrix(code.generator, to_list(plan->sources), to_list(plan->targets));
  ASSERT_TRUE(expected);
  ASSERT_EQ(to_rows(plan->matrix), *expected);
}

class Plans : public testing::TestWithParam<std::string_view> {};

/// Among them too few that survive, which is no plan, and nothing lost, which is an empty one.
TEST_P(Plans, EverySubsetWantedOfASmallCode) {
  for (const CodeShape shape : {CodeShape{4, 2}, {3, 3}, {2, 4}, {2, 1}}) {
    const TestedCode code(GetParam(), shape.k, shape.m);
    const unsigned patterns = 1u << (shape.k + shape.m);
    for (unsigned there = 0; there < patterns; ++there)
      for (unsigned wish = 0; wish < patterns; ++wish) {
        const ChunkSet available = set_of(there), wanted = set_of(wish);
        if (available.count() >= shape.k || available.includes(wanted)) {
          expect_right_plan(code, available, wanted);
          if (HasFatalFailure()) FAIL() << "available " << there << " wanted " << wish;
        } else {
          ASSERT_FALSE(make_decode_plan(code.coding, {available, wanted})) << there << " " << wish;
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Techniques, Plans, testing::Values("reed_sol_van", "cauchy"),
                         [](const auto& info) { return std::string(info.param); });

/// The first coding row of reed_sol_van is all ones. A plan that used another would multiply for nothing; the
/// back ends look for a row of ones, among other targets too.
TEST(Plan, LostDataIsTheXorOfTheOthersAndTheFirstCodingChunk) {
  for (const auto [k, m] : {CodeShape{4, 2}, {8, 3}, {21, 4}}) {
    const auto coding = gf::coding_matrix(gf::Technique::reed_sol_van, k, m);
    for (unsigned lost = 0; lost < k; ++lost)
      for (const ChunkSet& wanted : {ChunkSet{lost}, ChunkSet{lost, k + m - 1}}) {
        const auto plan = make_decode_plan(coding, {ChunkSet::first(k + m) - wanted, wanted});
        ASSERT_TRUE(plan);
        EXPECT_EQ(to_rows(plan->matrix).front(), oracle::Bytes(k, 1)) << k << "+" << m << ", " << lost;
      }
  }
}

}  // namespace
}  // namespace ec::test
