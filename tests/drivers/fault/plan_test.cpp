// The language of EC_FAULTS: when each rule is due, what it makes of a call, and what is no rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/drivers/fault/injector.hpp"

namespace ec::test::faults {
namespace {

/// What becomes of the first eight calls of a function: its error, or a letter for the rest.
std::string effects(Injector& injector, std::string_view symbol, Needs needs = Needs::context) {
  const auto site = std::ranges::find(driver_sites, symbol) - std::begin(driver_sites);
  std::string all;
  for (int call = 0; call < 8; ++call) {
    const Effect effect = injector.enter(static_cast<std::size_t>(site), needs);
    const std::string time = std::to_string(effect.time.count());
    if (effect.code != 0)
      all += std::to_string(effect.code) + ' ';
    else if (effect.what == Rule::What::wrong)
      all += "wrong ";
    else
      all += effect.what == Rule::What::hang   ? "hang" + time + ' '
             : effect.what == Rule::What::slow ? "slow" + time + ' '
                                               : "- ";
  }
  return all;
}

TEST(FaultPlan, SaysWhatWhenAndWhere) {
  for (const auto& [plan, expected] :
       {std::pair{"cuMemAlloc:nth=3:2;;", "- - 2 - - - - - "},
        {"cuMemAlloc_v2:every=3:CUDA_ERROR_NOT_READY", "- - 600 - - 600 - - "},
        {"cuda:p=1:slow=2ms", "slow2000 slow2000 slow2000 slow2000 slow2000 slow2000 slow2000 slow2000 "},
        {"cuda:p=.5:1", "1 1 1 1 1 - 1 1 "},
        {"cuMemAlloc:nth=2:CUDA_ERROR_LAUNCH_FAILED;cuda:nth=2:1", "- 719 1 719 719 719 719 719 "},
        {"cuMemAlloc:nth=1:lost=1s", "46 46 46 46 46 46 46 46 "},
        {"launch:nth=1:2", "- - - - - - - - "},
        {"", "- - - - - - - - "}}) {
    Injector injector;
    EXPECT_EQ(injector.take_plan(plan), nullptr);
    EXPECT_EQ(effects(injector, "cuMemAlloc_v2"), expected) << plan;
    injector.forget();
    EXPECT_EQ(effects(injector, "cuMemAlloc_v2"), "- - - - - - - - ") << plan;
  }
  Injector injector;
  EXPECT_EQ(injector.take_plan("launch:nth=1:hang;launch:nth=1:hang=20us;launch:nth=1:wrong"), nullptr);
  EXPECT_EQ(effects(injector, "cuLaunchKernel"), "hang0 hang20 wrong - - - - - ");
}

TEST(FaultPlan, AContextThatEndedAnswersUntilItIsMadeAnew) {
  Injector injector;
  EXPECT_EQ(injector.take_plan("launch:nth=8:CUDA_ERROR_LAUNCH_FAILED"), nullptr);
  EXPECT_EQ(effects(injector, "cuLaunchKernel"), "- - - - - - - 719 ");
  EXPECT_EQ(effects(injector, "cuInit", Needs::nothing), "- - - - - - - - ");
  EXPECT_EQ(effects(injector, "cuDevicePrimaryCtxRelease_v2", Needs::always_done), "- - - - - - - - ");
  EXPECT_EQ(effects(injector, "cuStreamQuery"), "719 719 719 719 719 719 719 719 ");
  injector.context_made();
  EXPECT_EQ(effects(injector, "cuStreamQuery"), "- - - - - - - - ");
  EXPECT_EQ(injector.injected(), 1u);
  EXPECT_EQ(injector.calls("cuStreamQuery"), 16u);
}

TEST(FaultPlan, WhatIsNoRuleIsRefusedByItsName) {
  for (const std::string rule :
       {"cuInit", "x:nth=1:1", "cuInit:nth=0:1", "cuInit:every=1.5:1", "cuInit:p=0:1", "cuInit:p=1.5:1",
        "cuInit::1", "cuInit:nth=1:wrong", "cuInit:nth=1:hang", "launch:nth=1:hang=1h",
        "cuInit:nth=1:slow=0ms", "cuInit:nth=1:0", "cuInit:nth=1:-1", "cuInit:nth=1:CUDA_ERROR_NONE"}) {
    std::string why;
    EXPECT_TRUE(parse_plan("cuInit:nth=1:1;" + rule, &why).empty());
    EXPECT_EQ(why, "rule 2, \"" + rule + "\", is none: see tests/drivers/fault/plan.hpp");
  }
}

}  // namespace
}  // namespace ec::test::faults
