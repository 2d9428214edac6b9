// Encode, decode and update through the Codec, with each choice of back end, against the oracle.
#include "plugin/codec/codec.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <tuple>
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
  Stripe stripe("reed_sol_van", 4, 2, 5000, 1);
  ASSERT_EQ(codec.encode(stripe.data(), stripe.coding(), 5000), Status::ok);
  const auto plan = codec.plan({gf::ChunkSet{0, 2, 3, 4}, gf::ChunkSet::first(6)});
  ASSERT_TRUE(plan);
  ASSERT_EQ(codec.decode(*plan, stripe.sources(plan->sources), stripe.targets(plan->targets), 5000),
            Status::ok);
  ASSERT_EQ(codec.update(1, stripe.data()[0], stripe.coding(), 5000), Status::ok);
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

TEST_P(WithChoice, DecodeBringsEveryLossBackAndWritesNothingElse) {
  for (const auto technique : {Technique::reed_sol_van, Technique::cauchy}) {
    const auto codec = make_codec(technique, 5, 3);
    for (unsigned pattern = 1; pattern < 256; ++pattern) {
      gf::ChunkSet lost;
      for (unsigned c = 0; c < 8; ++c)
        if (pattern >> c & 1) lost.insert(c);
      if (lost.count() > 3) continue;
      Stripe stripe(gf::name(technique), 5, 3, 333, pattern);
      for (auto c : lost) stripe.scramble(c);
      const auto plan = codec.plan({gf::ChunkSet::first(8) - lost, lost});
      ASSERT_TRUE(plan);
      ASSERT_EQ(codec.decode(*plan, stripe.sources(plan->sources), stripe.targets(plan->targets), 333),
                Status::ok);
      ASSERT_EQ(stripe.chunks, stripe.intact) << gf::name(technique) << " pattern " << pattern;
    }
  }
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

/// Mixed shapes, signatures and verbs, every result checked.
TEST(Threads, EightOnSharedCodes) {
  constexpr std::tuple<Technique, unsigned, unsigned> codes[] = {{Technique::reed_sol_van, 4, 2},
                                                                 {Technique::cauchy, 4, 2},
                                                                 {Technique::reed_sol_van, 8, 3},
                                                                 {Technique::cauchy, 10, 4},
                                                                 {Technique::cauchy, 6, 6}};
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Random random(t);
      const auto choice = t % 3 == 0 ? BackendChoice::reference : BackendChoice::automatic;
      for (unsigned round = 0; round < 200; ++round) {
        // A new Codec each round: set-up races with use, as in a daemon that opens placement groups under
        // load.
        const auto& [technique, k, m] = codes[random.below(std::size(codes))];
        const Codec codec(technique, k, m, Router(choice, 0));
        wrong += !round_is_right(codec, gf::name(technique), random.below(700), random);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ec::test
