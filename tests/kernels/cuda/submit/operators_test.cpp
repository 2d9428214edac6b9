// What an operator gets to see of the device: a line in the log for each change of its state and none for a
// call, and stats that say what is so.
#include <algorithm>
#include <vector>

#include "kernels/tallies.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using codec::Operation;
using kernels::DeviceState;
using kernels::DeviceTallies;
using kernels::Residence;
using kernels::Status;

constexpr const char* up = "ec_cuda: device 0 is up: emulated device, compute capability 9.9\n";

class Operators : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    before_ = tallies();
    fallbacks_ = fallbacks();
  }

  /// Encodes one stripe of host memory; the CPU finishes what the device does not.
  void encode(unsigned times = 1) {
    for (unsigned i = 0; i < times; ++i) ASSERT_EQ(codec_.encode(sources_, targets_, bytes), Status::ok);
  }
  void fail_next_launch() { driver_->fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, true); }

  static DeviceTallies tallies() { return kernels::device_tallies(); }
  static DeviceState state() { return static_cast<DeviceState>(tallies().state); }
  static std::array<std::uint64_t, codec::causes> fallbacks() {
    return sum(codec::stats().page(), 0, Operation::encode).fallbacks;
  }
  std::uint64_t fell_back(Status cause) const {
    return fallbacks()[codec::cause_of(cause)] - fallbacks_[codec::cause_of(cause)];
  }
  static std::ptrdiff_t lines() { return std::ranges::count(log_, '\n'); }
  static unsigned lines_with(const std::string& what) {
    unsigned n = 0;
    for (auto at = log_.find(what); at != std::string::npos; at = log_.find(what, at + 1)) ++n;
    return n;
  }

  static constexpr unsigned k = 4, m = 2;
  static constexpr std::size_t bytes = 1000;
  codec::Codec codec_{gf::Technique::reed_sol_van, k, m, codec::Router(codec::BackendChoice::gpu, 0)};
  std::vector<std::uint8_t> memory_ = Random(1).bytes((k + m) * bytes);
  std::vector<kernels::Source> sources_ = [this] {
    std::vector<kernels::Source> all;
    for (unsigned c = 0; c < k; ++c) all.push_back({memory_.data() + c * bytes, Residence::pageable});
    return all;
  }();
  std::vector<kernels::Target> targets_ = [this] {
    std::vector<kernels::Target> all;
    for (unsigned c = k; c < k + m; ++c) all.push_back({memory_.data() + c * bytes, Residence::pageable});
    return all;
  }();
  DeviceTallies before_;
  std::array<std::uint64_t, codec::causes> fallbacks_{};
};

TEST_F(Operators, AThousandCallsWithTenFaultsAreALineForEachChange) {
  ASSERT_TRUE(bring_up()) << log_;
  for (int fault = 0; fault < 10; ++fault) {
    fail_next_launch();
    encode();
    EXPECT_EQ(state(), DeviceState::latched);
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;  // EC_CUDA_RETRY_S is 0 here
    EXPECT_EQ(state(), DeviceState::up);
    encode(99);
  }
  EXPECT_EQ(lines_with(up), 11u) << log_;
  EXPECT_EQ(
      lines_with(
          "ec_cuda: device 0 is latched off for 0 s, the CPU codes: the kernel failed: EMULATED_ERROR_719\n"),
      10u);
  EXPECT_EQ(lines(), 21) << log_;
  EXPECT_EQ(fell_back(Status::fault), 10u);
  EXPECT_EQ(fell_back(Status::busy), 0u);
  EXPECT_EQ(tallies().latches - before_.latches, 10u);
  EXPECT_EQ(tallies().starts - before_.starts, 11u);
  EXPECT_EQ(tallies().failed_starts, before_.failed_starts);
}

TEST_F(Operators, WhileTheDeviceIsLatchedCallsAreCountedAndNotSaid) {
  auto o = options();
  o.retry_after = std::chrono::hours(1);
  use(o);
  ASSERT_TRUE(bring_up()) << log_;
  fail_next_launch();
  encode(1000);
  EXPECT_EQ(lines(), 2) << log_;
  EXPECT_EQ(fell_back(Status::fault), 1u);
  EXPECT_EQ(fell_back(Status::busy), 999u);
  EXPECT_EQ(state(), DeviceState::latched);
}

TEST_F(Operators, ADeviceThatDoesNotComeUpIsSaidOnceInARow) {
  auto o = options();
  o.driver_library = "libno-such-driver.so.1";
  use(o);
  std::string why;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(kernels::cuda::bring_up(&why));
    encode(100);
  }
  EXPECT_FALSE(kernels::cuda::bring_up(&why));  // waits for what the last call has begun
  EXPECT_EQ(lines(), 1) << log_;
  EXPECT_EQ(lines_with("ec_cuda: no device, the CPU codes: no CUDA driver: "), 1u) << log_;
  EXPECT_EQ(fell_back(Status::busy), 1000u);
  EXPECT_GE(tallies().failed_starts - before_.failed_starts, 10u);
  EXPECT_EQ(state(), DeviceState::none);
}

/// What a GPU answers while it is absent or another has it, at the start of a daemon.
class LateDevice : public Operators,
                   public testing::WithParamInterface<std::pair<const char*, const char*>> {};

INSTANTIATE_TEST_SUITE_P(
    Operators, LateDevice,
    testing::Values(std::pair{"cuInit", "CUDA_ERROR_NO_DEVICE"},
                    std::pair{"cuDevicePrimaryCtxRetain", "CUDA_ERROR_OUT_OF_MEMORY"},
                    std::pair{"cuDevicePrimaryCtxRetain", "CUDA_ERROR_DEVICE_UNAVAILABLE"}),
    [](const auto& info) { return std::string(info.param.first) + "_" + info.param.second; });

TEST_P(LateDevice, IsTriedAgainAfterTheRetryTimeAndThenTakesWork) {
  using Clock = std::chrono::steady_clock;
  const auto [function, error] = GetParam();
  auto o = options();
  o.retry_after = std::chrono::seconds(1);
  use(o);
  ASSERT_EQ(driver_->plan((std::string(function) + ":every=1:" + error).c_str()), nullptr);
  const auto on_device = [] { return codec::stats_of("cuda").calls; };
  const auto before = on_device();
  const auto right = oracle::apply(oracle::coding_matrix("reed_sol_van", k, m), [this] {
    std::vector<oracle::Bytes> data;
    for (const auto& source : sources_) data.emplace_back(source.data, source.data + bytes);
    return data;
  }());
  const auto coded_right = [&] {
    for (const auto& target : targets_) std::fill_n(target.data, bytes, std::uint8_t{0xee});
    encode();
    for (unsigned r = 0; r < m; ++r)
      if (!std::equal(right[r].begin(), right[r].end(), targets_[r].data)) return false;
    return true;
  };

  // As a daemon does: it codes, and waits for nothing.
  ASSERT_TRUE(coded_right());
  const auto tried = Clock::now() + std::chrono::seconds(5);
  while (tallies().failed_starts == before_.failed_starts && Clock::now() < tried) ASSERT_TRUE(coded_right());
  const auto failed_at = Clock::now();
  while (Clock::now() < failed_at + std::chrono::milliseconds(700)) ASSERT_TRUE(coded_right());
  EXPECT_EQ(tallies().failed_starts, before_.failed_starts + 1) << "tried before the retry time was over";
  EXPECT_EQ(lines_with("ec_cuda: no device, the CPU codes: " + std::string(function) + ": "), 1u) << log_;
  EXPECT_EQ(lines(), 1) << log_;
  EXPECT_EQ(on_device(), before);
  EXPECT_GT(fell_back(Status::busy), 0u);
  EXPECT_EQ(state(), DeviceState::none);

  ASSERT_EQ(driver_->plan(""), nullptr);
  while (on_device() == before && Clock::now() < failed_at + std::chrono::seconds(10))
    ASSERT_TRUE(coded_right());
  EXPECT_GE(Clock::now(), failed_at + std::chrono::milliseconds(900));
  EXPECT_GT(on_device(), before) << "the device is not back\n" << log_;
  EXPECT_EQ(state(), DeviceState::up);
  EXPECT_EQ(lines_with(up), 1u) << log_;
  EXPECT_EQ(lines(), 2) << log_;
  EXPECT_EQ(tallies().starts, before_.starts + 1);
  const auto then = on_device();
  ASSERT_TRUE(coded_right());
  EXPECT_EQ(on_device(), then + 1) << "work stays with it";
}

TEST_F(Operators, MemoryIsWhatTheDriverSays) {
  const auto pinned = driver_->pinned_bytes();
  ASSERT_TRUE(bring_up()) << log_;
  encode(10);
  EXPECT_EQ(tallies().staging_bytes - before_.staging_bytes, driver_->pinned_bytes() - pinned);
  EXPECT_GT(tallies().staging_bytes, before_.staging_bytes);
  use(options());  // drops the device
  EXPECT_EQ(tallies().staging_bytes, before_.staging_bytes);
  EXPECT_EQ(state(), DeviceState::none);

  ASSERT_TRUE(bring_up()) << log_;
  driver_->hang();
  encode();
  EXPECT_EQ(fell_back(Status::fault) + fell_back(Status::hung), 1u) << "its targets were staged";
  const auto given_up = tallies().given_up_bytes - before_.given_up_bytes;
  EXPECT_GT(given_up, 0u);
  driver_->finish_hung();
  use(options());
  EXPECT_GE(tallies().staging_bytes - before_.staging_bytes, given_up) << "it stays pinned for good";
}

}  // namespace
}  // namespace ec::test
