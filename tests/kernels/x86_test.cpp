// What is particular to the x86 back end: which instruction set runs, and both ways of writing targets.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/backends.hpp"
#include "kernels/x86/backend.hpp"
#include "kernels/x86/coefficients.hpp"
#include "kernels/x86/walk.hpp"
#include "tests/support/conformance.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Program;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::x86::Isa;
using kernels::x86::X86;

class Variant : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto* found = dynamic_cast<X86*>(kernels::find_backend(GetParam()));
    ASSERT_NE(found, nullptr);
    variant_ = found;
    if (!variant_->runs_here()) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  void check(const JobCase& c) {
    const auto arena = pageable_arena();
    const Outcome outcome = run_case(*variant_, c, *arena);
    EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  }

  X86* variant_ = nullptr;
};

TEST_P(Variant, IsTheOneThatRuns) {
  const Program program(to_matrix(random_matrix(2, 3, 1)));
  std::vector<std::uint8_t> bytes(5 * 100);
  std::vector<Source> sources;
  std::vector<Target> targets;
  for (unsigned c = 0; c < 3; ++c) sources.push_back({bytes.data() + c * 100});
  for (unsigned c = 3; c < 5; ++c) targets.push_back({bytes.data() + c * 100});
  for (const bool accumulate : {false, true}) {
    const auto run = variant_->run({&program, sources, targets, 100}, accumulate);
    EXPECT_EQ(run.status, Status::ok);
    EXPECT_EQ(run.isa, variant_->isa());
  }
}

TEST_P(Variant, WritesThroughAndPastTheCache) {
  constexpr unsigned k = 5, m = 3;
  const std::size_t most_cached = kernels::x86::stream_threshold() / (k + m);
  ASSERT_FALSE(kernels::x86::choose_walk(k, m, most_cached, false).stream);
  ASSERT_TRUE(kernels::x86::choose_walk(k, m, most_cached + 1, false).stream);
  for (const std::size_t bytes : {most_cached, most_cached + 1, most_cached + 63})
    for (const unsigned misalignment : {0u, 1u, 32u, 63u})
      check({random_matrix(m, k, bytes), bytes, Verb::transform, {3}, {misalignment}, 7});
  check({random_matrix(m, k, 9), most_cached + 1, Verb::transform, {}, {0, 17, 64}, 9});
  check({random_matrix(m, k, 9), most_cached + 1, Verb::accumulate, {}, {5}, 9});
}

TEST_P(Variant, WideCodesPastTheCache) {
  for (const auto verb : {Verb::transform, Verb::accumulate}) {
    const std::size_t bytes = kernels::x86::stream_threshold() / 40 + 77;
    check({random_matrix(8, 40, 1), bytes, verb, {}, {}, 1});
    check({random_matrix(4, 40, 2), bytes, verb, {}, {}, 2});
  }
}

TEST_P(Variant, MoreRowsThanOnePass) {
  for (const unsigned rows : {32u, 33u, 65u})
    for (const auto verb : {Verb::transform, Verb::accumulate}) {
      auto matrix = random_matrix(rows, 7, rows);
      check({matrix, 1111, verb, {}, {}, rows});
      matrix[rows - 1].assign(7, 1);
      check({matrix, 1111, verb, {}, {}, rows});
    }
}

TEST_P(Variant, NoSourcesMakeZeros) {
  const Program program(gf::Matrix(1, 0));
  std::vector<std::uint8_t> bytes(77, 0xee);
  const Target target{bytes.data()};
  const Job job{&program, {}, {&target, 1}, bytes.size()};
  EXPECT_EQ(variant_->accumulate(job), Status::ok);
  EXPECT_EQ(std::ranges::count(bytes, 0xee), 77);
  EXPECT_EQ(variant_->transform(job), Status::ok);
  EXPECT_EQ(std::ranges::count(bytes, 0), 77);
}

INSTANTIATE_TEST_SUITE_P(X86, Variant,
                         testing::Values("x86-gfni512", "x86-gfni256", "x86-avx512", "x86-avx2"),
                         [](const auto& info) {
                           std::string label(info.param);
                           std::ranges::replace(label, '-', '_');
                           return label;
                         });

TEST(X86Backend, IsTheBestVariantOfThisCpu) {
  X86& best = kernels::x86::backend();
  EXPECT_EQ(kernels::find_backend("x86"), &best);
  for (auto* backend : kernels::variants()) {
    auto& variant = dynamic_cast<X86&>(*backend);
    if (!variant.runs_here()) continue;
    EXPECT_EQ(best.isa(), variant.isa()) << "variants are listed best first";
    return;
  }
  EXPECT_FALSE(best.runs_here());
}

TEST(X86Backend, StandsBeforeIsal) {
  const auto list = kernels::backends();
  const auto at = [&](std::string_view name) { return std::ranges::find(list, kernels::find_backend(name)); };
  EXPECT_LT(at("x86"), at("isal"));
}

TEST(X86Coefficients, PutARowOfOnesFirst) {
  gf::Matrix matrix(3, 2);
  for (unsigned r = 0; r < 3; ++r)
    for (unsigned c = 0; c < 2; ++c) matrix(r, c) = r == 2 ? 1 : static_cast<std::uint8_t>(2 + r);
  const kernels::x86::Coefficients ones(matrix, kernels::x86::Form::affine);
  EXPECT_TRUE(ones.first_is_xor);
  EXPECT_EQ(ones.order.front(), 2);
  matrix(2, 1) = 0;
  EXPECT_FALSE(kernels::x86::Coefficients(matrix, kernels::x86::Form::affine).first_is_xor);
}

}  // namespace
}  // namespace ec::test
