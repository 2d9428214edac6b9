// That the chosen back end is the one that runs, and what a Codec does by itself. What it codes:
// tests/plugin/library.
#include "plugin/codec/codec.hpp"

#include <gtest/gtest.h>

#include <string>

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
};

TEST_P(WithChoice, TheChosenBackEndIsTheOneThatRuns) {
  const auto expected = expected_backend();  // Brings a device up, if there is one.
  Stats counts;
  const Codec codec(Technique::reed_sol_van, 4, 2, Router(GetParam(), 0, kernels::backends(), counts));
  Random random(1);
  ASSERT_TRUE(round_is_right(codec, "reed_sol_van", 5000, random));
  for (std::size_t i = 0; i < kernels::backends().size(); ++i)
    EXPECT_EQ(sum(counts.page()).all(i).calls, kernels::backends()[i]->name() == expected ? 3u : 0u)
        << kernels::backends()[i]->name();
}

INSTANTIATE_TEST_SUITE_P(Choices, WithChoice,
                         testing::Values(BackendChoice::automatic, BackendChoice::cpu, BackendChoice::gpu,
                                         BackendChoice::x86, BackendChoice::isal, BackendChoice::reference),
                         [](const auto& info) { return std::string(codec::name(info.param)); });

Router cpu_router() { return Router(BackendChoice::cpu, 0); }

TEST(Codec, NothingLostIsDoneWithoutABackEnd) {
  Stats counts;
  const Codec codec(Technique::cauchy, 4, 2, Router(BackendChoice::cpu, 0, kernels::backends(), counts));
  const auto plan = codec.code().plan({gf::ChunkSet::first(6), gf::ChunkSet{0, 5}});
  ASSERT_TRUE(plan);
  EXPECT_EQ(codec.decode(*plan, {}, {}, 100), Status::ok);
  for (std::size_t i = 0; i < kernels::backends().size(); ++i) EXPECT_EQ(sum(counts.page()).all(i).calls, 0u);
}

TEST(Codec, CodecsOfOneCodeShareTheirPlans) {
  const Codec one(Technique::cauchy, 7, 3, cpu_router());
  const Codec two(Technique::cauchy, 7, 3, cpu_router());
  const Codec other(Technique::reed_sol_van, 7, 3, cpu_router());
  const gf::ErasureSignature signature{gf::ChunkSet{0, 1, 2, 3, 4, 5, 7}, gf::ChunkSet{6}};
  EXPECT_EQ(one.code().plan(signature), two.code().plan(signature));
  EXPECT_NE(one.code().plan(signature), other.code().plan(signature));
}

}  // namespace
}  // namespace ec::test
