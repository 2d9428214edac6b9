// What the C++ door says when the device fails under chunks in device memory, and that ordinary memory is
// coded all the same. Only with the fault driver in front (the test `library.emulated_faults`).
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/options.hpp"
#include "tests/common/arena.hpp"
#include "tests/common/threads.hpp"
#include "tests/drivers/fault/control.hpp"
#include "tests/plugin/library/placed.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

class EmulatedFaultDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (faults::control_of() == nullptr) GTEST_SKIP() << "not the fault driver";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

/// Two data chunks and one coding chunk in device memory; the codec has brought the device up.
struct OnDevice {
  OnDevice() { use("a first call"); }

  /// Encodes, and says what became of it.
  Errc use(const char* what) const { return say(what, codec.encode(data, coding)); }
  Errc use_host() const {
    std::vector<std::uint8_t> one(4096, 1), other(4096, 2), sum(4096);
    const std::vector<Source> sources{one, other};
    const std::vector<Target> targets{sum};
    const auto answer = say("ordinary memory", codec.encode(sources, targets));
    return sum[4095] == 3 ? answer : Errc::device_fault;
  }
  static Errc say(const char* what, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", what, error ? error.text().c_str() : "coded");
    return static_cast<Errc>(error.code().value());
  }

  const Codec codec = made(2, 1);
  const Placed chunks{StripeSet("reed_sol_van", 2, 1, 1, 4096, 1), *arena_of(kernels::Residence::device)};
  const std::vector<Source> data = chunks.sources({0, 1});
  const std::vector<Target> coding = chunks.targets({2});
};

/// 0 if all of them are as expected. Skips what a device that is given up would wait for.
[[noreturn]] void leave(bool as_expected) {
  std::fflush(stderr);
  std::_Exit(as_expected ? 0 : 1);
}

TEST_F(EmulatedFaultDeathTest, FaultIsSaidWithTheDriversReason) {
  const auto fail = [] {
    const OnDevice device;
    faults::control_of()->plan("launch:nth=1:CUDA_ERROR_OUT_OF_MEMORY");
    leave(device.use("failing") == Errc::device_fault && device.use("after it") == Errc::no_device &&
          device.use_host() == Errc{});
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(0),
              "a first call: coded\n"
              "failing: the device failed: cuLaunchKernel: EMULATED_ERROR_2\n"
              "after it: chunks are in device memory, and no device is up: cuLaunchKernel: EMULATED_ERROR_2\n"
              "ordinary memory: coded\n");
}

TEST_F(EmulatedFaultDeathTest, AChunkThatFailedEndsItsAccumulator) {
  const auto fail = [] {
    const OnDevice device;
    const auto sums = device.codec.begin(std::vector{0u, 1u}, std::vector{2u}, device.coding).value();
    const std::vector<Source> first{device.data[0]}, second{device.data[1]};
    const bool began = device.say("first", sums.add(0, first)) == Errc{};
    faults::control_of()->plan("launch:nth=1:CUDA_ERROR_OUT_OF_MEMORY");
    leave(began && device.say("failing", sums.add(1, second)) == Errc::device_fault &&
          device.say("after it", sums.add(1, second)) == Errc::invalid_argument &&
          device.say("end", sums.end()) == Errc::invalid_argument);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(0),
              "first: coded\n"
              "failing: the device failed: cuLaunchKernel: EMULATED_ERROR_2\n"
              "after it: chunk 1 failed when it was added; begin anew\n"
              "end: chunk 1 failed when it was added; begin anew\n");
}

TEST_F(EmulatedFaultDeathTest, NoDeviceMeansThatNothingWasWritten) {
  const auto code = [] {
    setenv("EC_EMULATED_DEVICES", "2", 1);
    setenv("EC_CUDA_DEVICES", "0,1", 1);
    const OnDevice device;
    auto of_test = kernels::cuda::current_options();
    of_test.devices = {0, 1};
    kernels::cuda::configure(of_test);
    const auto memory = tools::Buffer::allocate(4096, kernels::Residence::device, 1);
    const Target elsewhere(memory.data(), 4096, Residence::device), here = device.coding[0];
    const std::vector<Source> delta{device.data[0], device.data[0]};
    const auto update = [&](const Target& first, const Target& second) {
      return device.say("update", device.codec.update(0, delta, std::vector{first, second}));
    };
    const auto sums = device.codec.begin(std::vector{0u, 1u}, std::vector{2u}, device.coding).value();
    const std::vector<Source> strange{elsewhere};
    leave(update(elsewhere, here) == Errc::no_device && update(here, elsewhere) == Errc::device_fault &&
          device.say("add", sums.add(0, strange)) == Errc::no_device &&
          !sums.add(0, std::vector{device.data[0]}) && !sums.add(1, std::vector{device.data[1]}) &&
          !sums.end());
  };
  EXPECT_EXIT(code(), testing::ExitedWithCode(0),
              "update: no GPU takes .*\nupdate: the device failed\nadd: no GPU takes");
}

TEST_F(EmulatedFaultDeathTest, ACancelledThreadLearnsFirstWhereChunksDiffer) {
  const auto cancel = [] {
    const OnDevice device;
    const auto sources = device.chunks.sources({0, 1, 0});
    faults::control_of()->plan("cuMemcpyDtoHAsync:every=1:slow=2ms");
    in_threads(1, [&](unsigned) {
      pthread_cancel(pthread_self());
      const auto verdict = device.codec.verify(std::vector{0u, 1u, 2u}, sources);
      std::_Exit(verdict && !verdict.value().agree ? 0 : 1);
    });
  };
  EXPECT_EXIT(cancel(), testing::ExitedWithCode(0), "a first call: coded");
}

TEST_F(EmulatedFaultDeathTest, ADifferenceOutsideTheChunksIsAFault) {
  const auto lie = [] {
    const OnDevice device;
    faults::control_of()->plan("cuMemcpyDtoHAsync:nth=1:wrong");
    const auto verdict = device.codec.verify(std::vector{0u, 1u, 2u}, device.chunks.sources({0, 1, 2}));
    leave(!verdict && verdict.error().code() == Errc::device_fault);
  };
  EXPECT_EXIT(lie(), testing::ExitedWithCode(0), "a first call: coded");
}

TEST_F(EmulatedFaultDeathTest, AnInvalidCaptureOfTheCallerLatchesNothingOff) {
  const auto fail = [] {
    const OnDevice device;
    faults::control_of()->plan("launch:nth=1:901");
    leave(device.say("captured", device.codec.encode_async(device.data, device.coding, nullptr)) ==
              Errc::device_fault &&
          device.use("after it") == Errc{});
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(0), "after it: coded");
}

TEST_F(EmulatedFaultDeathTest, HungIsSaidWithAWarning) {
  const auto hang = [] {
    const OnDevice device;
    faults::control_of()->plan("launch:every=1:hang");
    leave(device.use("hanging") == Errc::device_hung && device.use_host() == Errc{});
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(0),
              "hanging: the device stopped answering and may still write to the targets\n"
              "ordinary memory: coded\n");
}

TEST_F(EmulatedFaultDeathTest, BusyIsSaidWithTheLimit) {
  const auto crowd = [] {
    const OnDevice device;
    // Each call keeps its lane so long.
    if (faults::control_of()->plan("cuStreamQuery:every=1:slow=30ms") != nullptr) leave(false);
    constexpr int calls = 64;  // four for each lane
    std::atomic<int> busy{0}, coded{0};
    in_threads(calls, [&](unsigned) {
      std::vector<std::uint8_t> sum(4096);
      const std::vector<Target> coding{sum};
      const Errc answer = OnDevice::say("crowded", device.codec.encode(device.data, coding));
      busy += answer == Errc::busy;
      coded += answer == Errc{};
    });
    leave(busy > 0 && coded > 0 && busy + coded == calls);
  };
  EXPECT_EXIT(
      crowd(), testing::ExitedWithCode(0),
      "crowded: the device has no room for this call now: too many at once, or EC_CUDA_STAGING_BYTES is "
      "too small\n");
}

}  // namespace
}  // namespace ec::test
