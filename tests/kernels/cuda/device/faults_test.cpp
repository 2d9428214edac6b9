// Whatever the driver does, the host gets right bytes, and an operator sees a line in the log for each change
// of the device's state, none for a call, and stats that say what is so. Each function at each of its calls:
// fault_sites_test.cpp; work that hangs: submit/staging_test.cpp.
#include <algorithm>
#include <cstddef>

#include "kernels/device_stats.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tests/plugin/codec/routing/round.hpp"

namespace ec::test {
namespace {

using codec::Operation;
using kernels::DeviceState;
using kernels::DeviceStats;
using kernels::Source;
using kernels::Target;
using Clock = std::chrono::steady_clock;

constexpr const char* up = "ec_cuda: device 0 is up: emulated device, compute capability 9.9\n";

/// A codec for host memory that is told to use the device.
class Faults : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    before_ = stats();
    fallbacks_ = fallbacks();
  }

  /// Encodes a stripe and updates it, on the device or else on the CPU: whether all of it is ok and right.
  bool codes_right(bool updates = true) {
    StripeSet stripes("reed_sol_van", codec_.k(), codec_.m(), 1, 1000, ++seed_);
    return encode_is_right(codec_, stripes) && (!updates || update_is_right(codec_, stripes, 1));
  }
  void expect_right(unsigned times) {
    for (unsigned i = 0; i < times; ++i) ASSERT_TRUE(codes_right());
  }
  void fail_next_launch() { plan("launch:nth=1:CUDA_ERROR_LAUNCH_FAILED"); }

  static std::uint64_t on_device() { return codec::sum(codec::stats().page()).all(0).calls; }
  static DeviceStats stats() { return kernels::device_stats(); }
  static DeviceState state() { return static_cast<DeviceState>(stats().state); }
  static std::array<std::uint64_t, codec::causes> fallbacks() {
    return sum(codec::stats().page()).row(0, Operation::encode).fallbacks;
  }
  /// Encode calls since the start of the test.
  std::uint64_t fell_back(Status cause) const {
    return fallbacks()[codec::cause_of(cause)] - fallbacks_[codec::cause_of(cause)];
  }
  static std::ptrdiff_t lines() { return std::ranges::count(log_, '\n'); }
  static unsigned lines_with(const std::string& what) {
    unsigned n = 0;
    for (auto at = log_.find(what); at != std::string::npos; at = log_.find(what, at + 1)) ++n;
    return n;
  }

  codec::Codec codec_{gf::Technique::reed_sol_van, 4, 2, codec::Router(codec::BackendChoice::gpu, 0)};
  std::uint64_t seed_ = 0;
  DeviceStats before_;
  std::array<std::uint64_t, codec::causes> fallbacks_{};
};

TEST_F(Faults, NothingIsTouchedBeforeTheFirstJob) {
  const kernels::Program program(gf::Matrix(1, 1));
  EXPECT_TRUE(
      kernels::cuda::backend().supports({&program, std::array<Source, 1>{}, std::array<Target, 1>{}, 1}));
  EXPECT_EQ(driver_->all_calls(), 0u);
}

TEST_F(Faults, TenInManyCallsAreALineForEachChange) {
  ASSERT_TRUE(bring_up()) << log_;
  for (int fault = 0; fault < 10; ++fault) {
    const auto before = on_device();
    expect_right(20);
    EXPECT_EQ(on_device(), before + 40);
    fail_next_launch();
    ASSERT_TRUE(codes_right(false));
    EXPECT_EQ(state(), DeviceState::latched);
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;  // EC_CUDA_RETRY_S is 0 here
    EXPECT_EQ(state(), DeviceState::up);
  }
  EXPECT_EQ(lines_with(up), 11u) << log_;
  EXPECT_EQ(
      lines_with(
          "ec_cuda: device 0 is latched off for 0 s, the CPU codes: the kernel failed: EMULATED_ERROR_719\n"),
      10u);
  EXPECT_EQ(lines(), 21) << log_;
  EXPECT_EQ(fell_back(Status::fault), 10u);
  EXPECT_EQ(fell_back(Status::busy), 0u);
  EXPECT_EQ(stats().latches - before_.latches, 10u);
  EXPECT_EQ(stats().starts - before_.starts, 11u);
  EXPECT_EQ(stats().failed_starts, before_.failed_starts);
}

TEST_F(Faults, ADeviceThatDoesNotComeUpIsSaidOnceInARow) {
  auto no_driver = options(), no_such_device = options();
  no_driver.driver_library = "libno-such-driver.so.1";
  no_such_device.devices = {3};
  for (const auto& [o, lies, why] :
       {std::tuple{no_driver, false, "no CUDA driver: "},
        {no_such_device, false, "device 3 does not exist: this machine has 1 GPU(s)\n"},
        {options(), true, "self-test: 167 times 0 gave 1\n"}}) {
    SetUp();
    use(o);
    if (lies) plan("launch:every=1:wrong");
    kernels::cuda::Reason ignored;
    for (int i = 0; i < 5; ++i) {
      EXPECT_FALSE(kernels::cuda::bring_up(&ignored));
      expect_right(10);
    }
    EXPECT_FALSE(kernels::cuda::bring_up(&ignored));  // waits for what the last call has begun
    EXPECT_EQ(lines(), 1) << log_;
    EXPECT_EQ(lines_with(std::string("ec_cuda: no device, the CPU codes: ") + why), 1u) << log_;
    EXPECT_EQ(fell_back(Status::busy), 50u);
    EXPECT_GE(stats().failed_starts - before_.failed_starts, 5u);
    EXPECT_EQ(state(), DeviceState::none);
  }
}

TEST_F(Faults, TheLineAndTheStatsSayWhetherTheDeviceIsSharedByMps) {
  setenv("EC_EMULATED_MPS", "1", 1);
  ASSERT_TRUE(bring_up());
  EXPECT_EQ(lines_with("compute capability 9.9, shared by MPS\n"), 1u) << log_;
  EXPECT_EQ(stats().shared_by_mps, 1u);
  unsetenv("EC_EMULATED_MPS");
  use(options());
  ASSERT_TRUE(bring_up());
  EXPECT_EQ(lines_with(up), 1u) << log_;
  EXPECT_EQ(stats().shared_by_mps, 0u);
}

TEST_F(Faults, OnlyWhoIsAloneInTheProcessTakesTheStacksOfAContextAway) {
  for (const bool alone : {true, false}) {
    auto o = options();
    o.alone_in_process = alone;
    use(o);
    driver_->reset();
    ASSERT_TRUE(bring_up());
    EXPECT_EQ(driver_->calls("cuCtxSetLimit"), alone ? 1u : 0u);
  }
}

/// What a GPU answers while it is absent or another has it, at the start of a daemon; or a launch that fails.
struct Absence {
  const char *function, *error;
  bool was_up = false;
};
class AbsentDevice : public Faults, public testing::WithParamInterface<Absence> {};

INSTANTIATE_TEST_SUITE_P(Faults, AbsentDevice,
                         testing::Values(Absence{"cuInit", "CUDA_ERROR_NO_DEVICE"},
                                         Absence{"cuDevicePrimaryCtxRetain", "CUDA_ERROR_OUT_OF_MEMORY"},
                                         Absence{"cuDevicePrimaryCtxRetain", "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                         Absence{"cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED", true}),
                         [](const auto& info) {
                           return std::string(info.param.function) + "_" + info.param.error;
                         });

/// Calls meanwhile are counted and not said.
TEST_P(AbsentDevice, IsTriedAgainAfterTheRetryTimeAndThenTakesWork) {
  const auto [function, error, was_up] = GetParam();
  auto o = options();
  o.retry_after = std::chrono::seconds(2);
  use(o);
  ASSERT_TRUE(!was_up || bring_up()) << log_;
  plan(std::string(function) + (was_up ? ":nth=1:" : ":every=1:") + error);
  const auto before = on_device();
  const auto began = Clock::now();  // no second try before the retry time from here is over
  const auto is_due = [&] { return Clock::now() >= began + o.retry_after; };

  // As a daemon does: it codes, and waits for nothing.
  ASSERT_TRUE(codes_right());
  const auto enough = [&] { return Clock::now() > began + std::chrono::seconds(10); };
  const auto failed_starts = [&] { return stats().failed_starts - before_.failed_starts; };
  while (!was_up && failed_starts() == 0 && !enough()) ASSERT_TRUE(codes_right());
  while (Clock::now() < began + std::chrono::milliseconds(700)) ASSERT_TRUE(codes_right());
  if (is_due()) GTEST_SKIP() << "the host is so busy that the device was tried again before it was looked at";
  EXPECT_EQ(failed_starts(), was_up ? 0u : 1u);
  const std::string no_device = "ec_cuda: no device, the CPU codes: " + std::string(function) + ": ";
  EXPECT_EQ(lines_with(was_up ? "device 0 is latched off for 2 s" : no_device), 1u) << log_;
  EXPECT_EQ(lines(), was_up ? 2 : 1) << log_;
  EXPECT_EQ(on_device(), before);
  EXPECT_GT(fell_back(Status::busy), 0u);
  EXPECT_EQ(fell_back(Status::fault), was_up ? 1u : 0u);
  EXPECT_EQ(state(), was_up ? DeviceState::latched : DeviceState::none);

  driver_->reset();
  while (on_device() == before && !enough()) ASSERT_TRUE(codes_right());
  EXPECT_TRUE(is_due());
  EXPECT_EQ(state(), DeviceState::up);
  EXPECT_EQ(lines_with(up), was_up ? 2u : 1u) << log_;
  EXPECT_EQ(lines(), was_up ? 3 : 2) << log_;
  EXPECT_EQ(stats().starts - before_.starts, was_up ? 2u : 1u);
  const auto then = on_device();
  ASSERT_TRUE(codes_right());
  EXPECT_EQ(on_device(), then + 2) << "work stays with it";
}

/// It is left alone until its work is over, at its self-test as later; then it gives all back.
TEST_F(Faults, ADeviceThatHangsCostsItsMemoryOnce) {
  const std::size_t pinned = driver_->pinned_bytes(), on_gpu = driver_->device_bytes(),
                    objects = driver_->objects(), staging = options().staging_bytes;
  for (const bool was_up : {false, true}) {
    ASSERT_TRUE(!was_up || bring_up()) << log_;
    plan("launch:every=1:hang");
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(codes_right(false));
      EXPECT_FALSE(bring_up());
      EXPECT_EQ(driver_->pinned_bytes(), pinned + staging);
      EXPECT_EQ(stats().given_up_bytes, before_.given_up_bytes + staging);
    }
    EXPECT_EQ(
        lines_with(
            "ec_cuda: no device, the CPU codes: its work from before is not over: EMULATED_ERROR_600\n"),
        1u)
        << log_;
    driver_->finish_hung();
    ASSERT_TRUE(bring_up()) << log_;
    EXPECT_EQ(stats().given_up_bytes, before_.given_up_bytes);
    EXPECT_EQ(stats().staging_bytes, before_.staging_bytes + staging);
    expect_right(3);
    use(options());
    EXPECT_EQ(driver_->pinned_bytes(), pinned);
    EXPECT_EQ(driver_->device_bytes(), on_gpu);
    EXPECT_EQ(driver_->objects(), objects);
    log_.clear();
  }
}

/// An error that says nothing about the kernel must not make its targets anybody's: it may still write them.
TEST_F(Faults, ErrorOfTheQuestionIsNoEndOfTheKernel) {
  ASSERT_TRUE(bring_up());
  plan("cuStreamQuery:nth=1:CUDA_ERROR_OUT_OF_MEMORY");
  const auto before = on_device();
  ASSERT_TRUE(codes_right()) << "asked again";
  EXPECT_EQ(on_device(), before + 2);

  // CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_UNKNOWN
  for (const std::string error : {"400", "999"}) {
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;
    const PlacedStripes stripes({4096, Residence::pinned, Residence::pinned}, 1);
    ASSERT_TRUE(stripes);
    plan("launch:every=1:hang;cuStreamQuery:every=1:" + error);
    EXPECT_EQ(kernels::cuda::backend().transform(stripes.jobs()[0]), Status::hung) << error;
    EXPECT_NE(log_.find("no answer within 50 ms, only EMULATED_ERROR_" + error), std::string::npos) << log_;
  }
}

}  // namespace
}  // namespace ec::test
