// Encode, decode and update through the Codec, with each choice of back end, against the oracle.
#include "plugin/codec/codec.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "plugin/codec/settings/setup_error.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/conformance.hpp"
#include "tests/plugin/codec/routing/round.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::Codec;
using codec::Router;
using codec::Stats;
using gf::Technique;
using kernels::Status;

class WithChoice : public testing::TestWithParam<BackendChoice> {
 protected:
  /// Which back end has to do a job in pageable memory: the device only if it is asked for and there.
  static std::string expected_backend() {
    if (GetParam() == BackendChoice::reference) return "reference";
    if (GetParam() == BackendChoice::gpu)
      if (auto* cuda = kernels::find_backend("cuda"); cuda != nullptr && answers(*cuda)) return "cuda";
    if (GetParam() != BackendChoice::isal)
      if (auto* x86 = kernels::find_backend("x86"); x86 != nullptr && answers(*x86)) return "x86";
    return "isal";
  }

  Codec make_codec(Technique technique, unsigned k, unsigned m) {
    return Codec(technique, k, m, Router(GetParam(), 0, kernels::backends(), counts_));
  }

  void expect_only_the_chosen_one_ran(std::uint64_t calls) {
    const auto expected = expected_backend();
    for (std::size_t i = 0; i < kernels::backends().size(); ++i)
      EXPECT_EQ(counts_.read(i).calls, kernels::backends()[i]->name() == expected ? calls : 0)
          << kernels::backends()[i]->name();
  }

  Stats counts_;
};

TEST_P(WithChoice, TheChosenBackEndIsTheOneThatRuns) {
  expected_backend();  // Brings a device up, if there is one.
  auto codec = make_codec(Technique::reed_sol_van, 4, 2);
  Random random(1);
  ASSERT_TRUE(round_is_right(codec, "reed_sol_van", 5000, random));
  expect_only_the_chosen_one_ran(3);
}

TEST_P(WithChoice, EncodesDecodesAndUpdatesAsTheOracleDoes) {
  Random random(1);
  for (const auto technique : {Technique::reed_sol_van, Technique::cauchy})
    for (const auto& [k, m] : {std::pair{2u, 1u}, {4u, 2u}, {8u, 3u}, {10u, 4u}, {21u, 4u}})
      for (const std::size_t bytes : {0u, 1u, 31u, 4096u, 10007u})
        ASSERT_TRUE(round_is_right(make_codec(technique, k, m), gf::name(technique), bytes, random))
            << gf::name(technique) << " " << k << "+" << m << ", " << bytes;
}

INSTANTIATE_TEST_SUITE_P(Choices, WithChoice,
                         testing::Values(BackendChoice::automatic, BackendChoice::cpu, BackendChoice::gpu,
                                         BackendChoice::x86, BackendChoice::isal, BackendChoice::reference),
                         [](const auto& info) { return std::string(codec::name(info.param)); });

Router cpu_router() { return Router(BackendChoice::cpu, 0); }

TEST(Codec, RefusesTheShapesThatTheMatricesRefuse) {
  for (const auto& [k, m] : {std::pair{1u, 1u}, {2u, 0u}, {22u, 4u}, {6u, 5u}, {200u, 56u}}) try {
      Codec(Technique::reed_sol_van, k, m, cpu_router());
      ADD_FAILURE() << k << "+" << m << " was taken";
    } catch (const codec::SetupError& error) {
      EXPECT_EQ(error.code(), EINVAL);
      EXPECT_EQ(error.what(), gf::shape_error(Technique::reed_sol_van, k, m));
    }
}

TEST(Codec, TooFewSurvivorsHaveNoPlan) {
  const Codec codec(Technique::cauchy, 4, 2, cpu_router());
  EXPECT_EQ(codec.plan({gf::ChunkSet{0, 1, 2}, gf::ChunkSet{3}}), nullptr);
  EXPECT_NE(codec.plan({gf::ChunkSet{0, 1, 2, 5}, gf::ChunkSet{3}}), nullptr);
}

TEST(Codec, NothingLostIsDoneWithoutABackEnd) {
  Stats counts;
  const Codec codec(Technique::cauchy, 4, 2, Router(BackendChoice::cpu, 0, kernels::backends(), counts));
  const auto plan = codec.plan({gf::ChunkSet::first(6), gf::ChunkSet{0, 5}});
  ASSERT_TRUE(plan);
  EXPECT_EQ(codec.decode(*plan, {}, {}, 100), Status::ok);
  for (std::size_t i = 0; i < kernels::backends().size(); ++i) EXPECT_EQ(counts.read(i).calls, 0u);
}

TEST(Codec, CodecsOfOneCodeShareTheirPlans) {
  const Codec one(Technique::cauchy, 7, 3, cpu_router());
  const Codec two(Technique::cauchy, 7, 3, cpu_router());
  const Codec other(Technique::reed_sol_van, 7, 3, cpu_router());
  const gf::ErasureSignature signature{gf::ChunkSet{0, 1, 2, 3, 4, 5, 7}, gf::ChunkSet{6}};
  EXPECT_EQ(one.plan(signature), two.plan(signature));
  EXPECT_NE(one.plan(signature), other.plan(signature));
}

}  // namespace
}  // namespace ec::test
