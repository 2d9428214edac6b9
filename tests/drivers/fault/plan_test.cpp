// The language of EC_FAULTS: what it says, and what is refused with which words.
#include "tests/drivers/fault/plan.hpp"

#include <cuda.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/drivers/fault/injector.hpp"
#include "tests/drivers/fault/sites.hpp"

namespace ec::test::faults {
namespace {

std::vector<Rule> plan(std::string_view text) {
  std::string why;
  auto rules = parse_plan(text, &why);
  EXPECT_EQ(why, "") << text;
  return rules;
}

std::string refusal(std::string_view text) {
  std::string why;
  EXPECT_TRUE(parse_plan(text, &why).empty());
  return why;
}

TEST(FaultPlan, SaysWhatWhenAndWhere) {
  const auto rules = plan(
      "cuLaunchKernel:every=500:CUDA_ERROR_LAUNCH_FAILED;cuStreamQuery:every=2000:slow=50ms;;launch:p=0.5:"
      "wrong;"
      "cuMemAlloc:nth=3:2;cuda:nth=9:lost=5s;launch:nth=1:hang=20us;launch:nth=2:hang;");
  ASSERT_EQ(rules.size(), 7u);
  using What = Rule::What;
  EXPECT_EQ(rules[0].code, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(rules[0].sticky);
  EXPECT_EQ(rules[0].n, 500u);
  EXPECT_EQ(rules[1].what, What::slow);
  EXPECT_EQ(rules[1].time, std::chrono::milliseconds(50));
  EXPECT_EQ(rules[2].site, "cuLaunchKernel");
  EXPECT_EQ(rules[2].what, What::wrong);
  EXPECT_EQ(rules[2].when, Rule::When::probability);
  EXPECT_EQ(rules[3].site, "cuMemAlloc_v2");
  EXPECT_FALSE(rules[3].sticky);
  EXPECT_EQ(rules[4].time, std::chrono::seconds(5));
  EXPECT_TRUE(rules[4].covers("cuInit"));
  EXPECT_EQ(rules[5].time, std::chrono::microseconds(20));
  EXPECT_EQ(rules[6].what, What::hang);
  EXPECT_EQ(rules[6].time.count(), 0);
  EXPECT_FALSE(rules[6].covers("cuInit"));
}

TEST(FaultPlan, AnEmptyOneHasNoRules) { EXPECT_TRUE(plan("").empty() && plan(";").empty()); }

TEST(FaultPlan, RulesCountTheirCalls) {
  auto nth = plan("cuInit:nth=2:1")[0];
  EXPECT_FALSE(nth.due());
  EXPECT_TRUE(nth.due());
  EXPECT_FALSE(nth.due());
  auto every = plan("cuInit:every=2:1")[0];
  unsigned due = 0;
  for (int i = 0; i < 10; ++i) due += every.due();
  EXPECT_EQ(due, 5u);
  auto likely = plan("cuInit:p=0.25:1")[0], again = likely;
  unsigned hits = 0;
  for (int i = 0; i < 4000; ++i) {
    const bool hit = likely.due();
    EXPECT_EQ(hit, again.due());
    hits += hit;
  }
  EXPECT_NEAR(hits, 1000u, 150u);
}

TEST(FaultPlan, WhatIsNoPlanIsRefusedWithWhatIsAllowed) {
  EXPECT_NE(refusal("cuInit:nth=1:1;x:nth=1:1").find("rule 2, \"x:nth=1:1\": \"x\" must be launch, cuda"),
            std::string::npos);
  EXPECT_NE(refusal("cuInit").find("a rule is SITE:WHEN:WHAT"), std::string::npos);
  for (const char* when : {"nth=0", "every=1.5", "p=0", "p=1.5", "p=0.5/7", "sometimes", ""})
    EXPECT_NE(refusal(fmt::format("cuInit:{}:1", when)).find("must be nth=N, every=N or p=X"),
              std::string::npos)
        << when;
  for (const char* what :
       {"cuInit:nth=1:wrong", "cuInit:nth=1:hang", "launch:nth=1:hang=1h", "cuInit:nth=1:slow=0ms",
        "cuInit:nth=1:0", "cuInit:nth=1:-1", "cuInit:nth=1:CUDA_ERROR_NONE"})
    EXPECT_NE(refusal(what).find("must be an error by name or number"), std::string::npos) << what;
}

TEST(FaultInjector, AnErrorThatEndsTheContextStaysUntilItIsMadeAnew) {
  Injector injector(driver_sites);
  EXPECT_EQ(injector.take_plan("cuLaunchKernel:nth=1:CUDA_ERROR_LAUNCH_FAILED"), nullptr);
  const auto site = [](std::string_view symbol) {
    return static_cast<std::size_t>(std::ranges::find(driver_sites, symbol) - std::begin(driver_sites));
  };
  EXPECT_EQ(injector.enter(site("cuStreamQuery"), Needs::context).code, 0);
  EXPECT_EQ(injector.enter(site("cuLaunchKernel"), Needs::context).code, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(injector.enter(site("cuStreamQuery"), Needs::context).code, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(injector.enter(site("cuInit"), Needs::nothing).code, 0);
  EXPECT_EQ(injector.enter(site("cuDevicePrimaryCtxRelease_v2"), Needs::always_done).code, 0);
  injector.context_made();
  EXPECT_EQ(injector.enter(site("cuStreamQuery"), Needs::context).code, 0);
  EXPECT_EQ(injector.injected(), 1u);
  EXPECT_EQ(injector.calls("cuStreamQuery"), 3u);
}

TEST(FaultInjector, ALostDeviceAnswersNothingUntilItIsBack) {
  Injector injector(driver_sites);
  EXPECT_EQ(injector.take_plan("cuInit:nth=1:lost=30ms"), nullptr);
  EXPECT_EQ(injector.enter(0, Needs::nothing).code, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(injector.enter(1, Needs::nothing).code, CUDA_ERROR_DEVICE_UNAVAILABLE);
  const auto start = std::chrono::steady_clock::now();
  while (injector.enter(1, Needs::nothing).code != 0)
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(injector.enter(2, Needs::context).code, CUDA_ERROR_DEVICE_UNAVAILABLE) << "its context is gone";
  injector.context_made();
  EXPECT_EQ(injector.enter(2, Needs::context).code, 0);
}

}  // namespace
}  // namespace ec::test::faults
