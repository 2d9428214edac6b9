// What the conformance tests share: every back end of the build crossed with every kind of memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/backends.hpp"
#include "tests/common/conformance.hpp"

namespace ec::test {

/// Every back end of the build and every variant that can only be had by name; but not generated kernels,
/// since here every job has a matrix of its own and each would be compiled
/// (tests/kernels/cuda/generate/generated_test.cpp has them).
inline const std::vector<kernels::Backend*>& suite_backends() {
  static const auto all = [] {
    std::vector<kernels::Backend*> list(kernels::backends().begin(), kernels::backends().end());
    for (auto* variant : kernels::variants())
      if (variant->name() != "cuda-generated") list.push_back(variant);
    return list;
  }();
  return all;
}

inline bool is_variant(const kernels::Backend& backend) {
  return std::ranges::find(kernels::variants(), &backend) != kernels::variants().end();
}

inline bool is_device(const kernels::Backend& backend) { return backend.name().starts_with("cuda"); }

/// Index in suite_backends(), residence of all chunks.
using SuiteParam = std::tuple<std::size_t, kernels::Residence>;

/// A test of one back end on one kind of memory. A device back end whose device is missing is skipped, unless
/// EC_CUDA_BACKEND=gpu says that there is one: then its silence is a failure. So is a variant for another
/// CPU.
class BackendTest : public testing::TestWithParam<SuiteParam> {
 protected:
  void SetUp() override {
    const char* forced = std::getenv("EC_CUDA_BACKEND");
    const bool device_expected = forced != nullptr && std::string_view(forced) == "gpu";
    if (!answers(backend())) {
      if (!is_device(backend()) && (is_variant(backend()) || backend().name() == "x86"))
        GTEST_SKIP() << "this CPU lacks the instructions";
      ASSERT_TRUE(is_device(backend())) << "a CPU back end did not do a small job";
      ASSERT_FALSE(device_expected) << "no device answers";
      GTEST_SKIP() << "no device";
    }
    if (arena_of(std::get<1>(GetParam())) == nullptr) {
      ASSERT_FALSE(device_expected) << "no memory of the device";
      GTEST_SKIP() << "no such memory on this machine";
    }
  }

  /// A test in which the back end declined every job has tested nothing, and says so.
  void TearDown() override {
    if (passed_ == 0 && declined_ > 0 && !HasFailure())
      GTEST_SKIP() << "the back end declines all " << declined_ << " jobs in this memory";
  }

  kernels::Backend& backend() const { return *suite_backends()[std::get<0>(GetParam())]; }
  Arena& arena() const { return *arena_of(std::get<1>(GetParam())); }

  void check(const JobCase& c) { check_between(c, arena(), arena()); }
  void check_between(const JobCase& c, Arena& sources, Arena& targets) {
    const Outcome outcome = run_case(backend(), c, sources, targets);
    passed_ += outcome.verdict == Verdict::passed;
    declined_ += outcome.verdict == Verdict::declined;
    EXPECT_NE(outcome.verdict, Verdict::failed) << outcome.reason;
    const bool in_host_memory = sources.residence() != kernels::Residence::device &&
                                targets.residence() != kernels::Residence::device;
    if (in_host_memory && !is_device(backend())) {
      EXPECT_EQ(outcome.verdict, Verdict::passed) << "a CPU back end takes every job in host memory";
    }
  }
  std::size_t jobs() const { return passed_ + declined_; }

 private:
  std::size_t passed_ = 0;
  std::size_t declined_ = 0;
};

inline std::string param_name(const testing::TestParamInfo<SuiteParam>& info) {
  std::string label(suite_backends()[std::get<0>(info.param)]->name());
  std::ranges::replace(label, '-', '_');
  return label + "_" + std::string(name(std::get<1>(info.param)));
}

inline auto every_backend_and_memory() {
  return testing::Combine(testing::Range(std::size_t{0}, suite_backends().size()),
                          testing::ValuesIn(residences()));
}

}  // namespace ec::test
