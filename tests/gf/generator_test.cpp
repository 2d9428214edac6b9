// Generator matrices against the oracle and ISA-L, and the shapes that lose no data.
#include "gf/generator.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <isa-l/erasure_code.h>

#include <tuple>
#include <vector>

#include "tests/common/conformance.hpp"
#include "tests/common/oracle.hpp"

namespace ec::test {
namespace {

using gf::Technique;

constexpr Technique techniques[] = {Technique::reed_sol_van, Technique::cauchy};

std::vector<CodeShape> compared_shapes(Technique technique) {
  auto shapes = small_shapes(gf::name(technique), 40);
  for (const CodeShape wide : {CodeShape{252, 3}, {3, 252}, {128, 3}, {253, 2}, {100, 1}})
    shapes.push_back(wide);
  if (technique == Technique::cauchy)
    for (const CodeShape wide : {CodeShape{100, 20}, {127, 128}, {235, 20}, {20, 235}})
      shapes.push_back(wide);
  return shapes;
}

TEST(Generator, EqualsTheDefinitionAndIsaLs) {
  for (const auto technique : techniques)
    for (const auto [k, m] : compared_shapes(technique)) {
      const auto coding = gf::coding_matrix(technique, k, m);
      ASSERT_EQ(to_rows(coding), oracle::coding_matrix(gf::name(technique), k, m))
          << gf::name(technique) << " k=" << k << " m=" << m;
      if (m == 1) continue;  // All ones by Ceph's rule, which for Cauchy is not ISA-L's matrix.
      std::vector<unsigned char> all((k + m) * k);
      (technique == Technique::cauchy ? gf_gen_cauchy1_matrix : gf_gen_rs_matrix)(
          all.data(), static_cast<int>(k + m), static_cast<int>(k));
      ASSERT_TRUE(std::equal(coding.cells().begin(), coding.cells().end(), all.begin() + k * k, all.end()))
          << gf::name(technique) << " k=" << k << " m=" << m;
    }
}

TEST(Generator, OfJerasureEqualsTheElimination) {
  const auto expect_equal = [](Technique technique, CodeShape s) {
    ASSERT_EQ(to_rows(gf::coding_matrix(technique, s.k, s.m)),
              oracle::coding_matrix(gf::name(technique), s.k, s.m))
        << gf::name(technique) << " " << s.k << "+" << s.m;
  };
  for (unsigned k = 2; k <= 40; ++k) {
    for (unsigned m = 1; m <= 8; ++m) expect_equal(Technique::jerasure_reed_sol_van, {k, m});
    expect_equal(Technique::jerasure_reed_sol_r6_op, {k, 2});
  }
  for (const CodeShape wide :
       {CodeShape{200, 55}, {128, 127}, {2, 253}, {100, 100}, {252, 3}, {253, 2}, {254, 1}})
    expect_equal(Technique::jerasure_reed_sol_van, wide);
  expect_equal(Technique::jerasure_reed_sol_r6_op, {253, 2});
}

TEST(Generator, TechniqueNames) {
  for (const auto technique : {Technique::reed_sol_van, Technique::cauchy, Technique::jerasure_reed_sol_van,
                               Technique::jerasure_reed_sol_r6_op})
    EXPECT_EQ(gf::parse_technique(gf::name(technique)), technique);
  EXPECT_EQ(gf::name(Technique::reed_sol_van), "reed_sol_van");
  EXPECT_EQ(gf::name(Technique::cauchy), "cauchy");
  EXPECT_EQ(gf::name(Technique::jerasure_reed_sol_van), "jerasure_reed_sol_van");
  EXPECT_EQ(gf::name(Technique::jerasure_reed_sol_r6_op), "jerasure_reed_sol_r6_op");
  for (const auto* wrong : {"", "Cauchy", "reed_sol_van ", "reed_sol_r6_op", "cauchy_orig", "vandermonde"})
    EXPECT_FALSE(gf::parse_technique(wrong)) << wrong;
  EXPECT_EQ(fmt::format("{}", fmt::join(gf::technique_names, ", ")),
            "reed_sol_van, cauchy, jerasure_reed_sol_van, jerasure_reed_sol_r6_op");
}

// A Vandermonde matrix of a smaller shape is the upper left corner of a larger one's. So what holds for the
// largest accepted shapes holds for all accepted ones, and a singular minor in a smallest refused shape is in
// every shape that contains it: these ten shapes decide all.
constexpr CodeShape largest_accepted[] = {{252, 3}, {3, 252}, {253, 2}, {2, 253}, {21, 4}, {4, 21}, {5, 5}};
constexpr CodeShape smallest_refused[] = {{22, 4}, {4, 22}, {5, 6}, {6, 5}};

TEST(Vandermonde, LargestAcceptedShapesHaveNoSingularMinorSmallestRefusedHaveOne) {
  const auto invertible = [](CodeShape s) {
    return oracle::every_minor_invertible(oracle::coding_matrix("reed_sol_van", s.k, s.m));
  };
  for (const auto s : largest_accepted) EXPECT_TRUE(invertible(s)) << s.k << "+" << s.m;
  for (const auto s : smallest_refused) EXPECT_FALSE(invertible(s)) << s.k << "+" << s.m;
}

TEST(Vandermonde, AcceptsExactlyTheShapesWithoutASingularMinor) {
  for (unsigned k = 2; k <= 254; ++k)
    for (unsigned m = 1; k + m <= 255; ++m) {
      bool inside = m == 1;
      bool contains = false;
      for (const auto s : largest_accepted) inside = inside || (k <= s.k && m <= s.m);
      for (const auto s : smallest_refused) contains = contains || (k >= s.k && m >= s.m);
      ASSERT_NE(inside, contains) << k << "+" << m << ": the ten shapes do not decide";
      ASSERT_EQ(gf::shape_error(Technique::reed_sol_van, k, m).empty(), inside) << k << "+" << m;
    }
}

TEST(ShapeError, NamesTheParameterItsValueAndWhatIsAllowed) {
  for (const auto technique : techniques) {
    for (const auto& [k, m, text] : {std::tuple(0u, 1u, "k=0 must be at least 2"),
                                     {1u, 1u, "k=1 must be at least 2"},
                                     {2u, 0u, "m=0 must be at least 1"},
                                     {254u, 2u, "k=254 and m=2: k+m must be at most 255"},
                                     {~0u, 2u, "k=4294967295 and m=2: k+m must be at most 255"},
                                     {2u, ~0u, "k=2 and m=4294967295: k+m must be at most 255"},
                                     {254u, 1u, ""},
                                     {2u, 1u, ""}})
      EXPECT_EQ(gf::shape_error(technique, k, m), text);
  }
  EXPECT_EQ(
      gf::shape_error(Technique::reed_sol_van, 6, 5),
      "k=6 and m=5: technique=reed_sol_van cannot recover every loss of m chunks in this shape; allowed are "
      "m <= 3, or m = 4 with k <= 21, or k <= 3, or k = 4 with m <= 21, or k = 5 with m <= 5; "
      "technique=cauchy has no such limit");
  for (unsigned k = 2; k <= 254; ++k)
    for (unsigned m = 1; k + m <= 255; ++m) {
      ASSERT_EQ(gf::shape_error(Technique::cauchy, k, m), "");
      ASSERT_EQ(gf::shape_error(Technique::jerasure_reed_sol_van, k, m), "");
    }
  EXPECT_EQ(gf::shape_error(Technique::jerasure_reed_sol_r6_op, 253, 2), "");
  EXPECT_EQ(gf::shape_error(Technique::jerasure_reed_sol_r6_op, 4, 3),
            "m=3 must be 2 with technique=jerasure_reed_sol_r6_op");
}

}  // namespace
}  // namespace ec::test
