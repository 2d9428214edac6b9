// Several devices: who gets the work, what one that fails does to the others, memory, streams and generated
// kernels of their own.
#include "kernels/cuda/device/devices.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gf/generator.hpp"
#include "tests/common/child.hpp"
#include "tests/common/threads.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::cuda::Claim;
using kernels::cuda::Device;
using kernels::cuda::Devices;
using kernels::cuda::KernelKind;
using tools::Buffer;

/// The GPUs 2 and 0 of three.
class SeveralDevices : public EmulatedDevice {
 protected:
  void SetUp() override {
    setenv("EC_EMULATED_DEVICES", "3", 1);
    EmulatedDevice::SetUp();
    use_devices({2, 0});
  }
  void TearDown() override {
    EmulatedDevice::TearDown();
    unsetenv("EC_EMULATED_DEVICES");
  }

  void use_devices(const std::vector<int>& ordinals) {
    auto o = options();
    o.devices = ordinals;
    o.retry_after = std::chrono::seconds(3600);
    use(o);
    for (std::size_t i = 0; i < ordinals.size(); ++i) (void)device(i);
  }

  /// Waited for; null and why_ if it does not come up.
  std::shared_ptr<Device> device(std::size_t index) { return devices_.acquire_waiting(index, &why_); }
  int next() const {
    const auto claim = devices_.acquire(0);
    return claim.device() ? claim.device()->info().ordinal : -1;
  }
  static Buffer memory(Residence residence, std::size_t index = 0) {
    return Buffer::allocate(bytes, residence, index);
  }

  /// A job from one buffer to another.
  struct CopyJob {
    CopyJob(const kernels::Program& program, const Buffer& from, const Buffer& to)
        : source{from.data(), from.residence()},
          target{to.data(), to.residence()},
          job{&program, {&source, 1}, {&target, 1}, bytes} {}
    CopyJob(const CopyJob&) = delete;
    CopyJob& operator=(const CopyJob&) = delete;
    Source source;
    Target target;
    kernels::Job job;
  };
  Status code(const Buffer& from, const Buffer& to, KernelKind kind = KernelKind::automatic) const {
    return kernels::cuda::backend(kind).transform(CopyJob(program_, from, to).job);
  }

  static constexpr std::size_t bytes = 8192;
  const kernels::Program program_{gf::Matrix(1, 1)};
  Devices& devices_ = Devices::instance();
  kernels::cuda::Reason why_;
};

TEST_F(SeveralDevices, WorkGoesToTheOneWithTheLeastUnderWay) {
  EXPECT_EQ(device(0)->info().ordinal, 2);
  EXPECT_EQ(device(1)->info().ordinal, 0);
  EXPECT_EQ(next(), 2) << "both idle: the order of the setting";
  const auto ordinal = [](const Claim& claim) { return claim.device()->info().ordinal; };
  {
    const auto a = devices_.acquire(1000);
    EXPECT_EQ(ordinal(a), 2);
    const auto b = devices_.acquire(5000);
    EXPECT_EQ(ordinal(b), 0);
    const auto c = devices_.acquire(5000);
    EXPECT_EQ(ordinal(c), 2);
    EXPECT_EQ(next(), 0);
  }
  EXPECT_EQ(next(), 2) << "nothing is under way any more";
}

TEST_F(SeveralDevices, OneThatFailsLeavesTheWorkToTheOther) {
  devices_.latch(*device(0), "a test");
  EXPECT_NE(log_.find("device 2 is latched off for 3600 s"), std::string::npos) << log_;
  EXPECT_TRUE(!device(0) && device(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), 0);
  EXPECT_EQ(code(memory(Residence::pinned, 1), memory(Residence::pinned, 1)), Status::ok);
}

TEST_F(SeveralDevices, OneThatIsNotThereIsSaidAndLeftOut) {
  use_devices({1, 7});
  EXPECT_TRUE(device(0));
  EXPECT_FALSE(device(1));
  EXPECT_EQ(why_, "device 7 does not exist: this machine has 3 GPU(s)");
  EXPECT_FALSE(device(2));
  EXPECT_EQ(next(), 1);
  devices_.latch(*device(0), "a test");
  EXPECT_FALSE(device(1));
  EXPECT_EQ(kernels::device_stats().state, static_cast<std::uint64_t>(kernels::DeviceState::latched));
}

TEST_F(SeveralDevices, TheEndOfAProcessWaitsOnceForAllThatHang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child of fork() waits for nothing
  const auto end_early = [&] {
    setenv("EC_EMULATED_DEVICES", "8", 1);
    use_devices({0, 1, 2, 3, 4, 5, 6, 7});
    alarm(60);  // one wait takes 10 s, a wait for each 80 s
    use(kernels::cuda::current_options());
    plan("cuInit:every=1:slow=1000s");
    (void)devices_.acquire(1);
    std::exit(0);
  };
  EXPECT_EXIT(end_early(), testing::ExitedWithCode(0), "");
}

/// The emulated driver lets no device touch the memory of another.
TEST_F(SeveralDevices, DeviceMemoryIsCodedWhereItLiesOrRefusedAndLatchesNothing) {
  const Buffer of_first = memory(Residence::device, 0), of_second = memory(Residence::device, 1);
  EXPECT_EQ(code(of_first, memory(Residence::device, 0)), Status::ok);
  EXPECT_EQ(code(of_second, memory(Residence::device, 1)), Status::ok);
  EXPECT_EQ(code(of_first, of_second), Status::unsupported);
  EXPECT_TRUE(device(0) && device(1));
  const CopyJob within(program_, of_first, of_first);
  driver_->reset();
  EXPECT_EQ(devices_.holder_of({&within.job, 1}), device(0));
  EXPECT_EQ(driver_->calls("cuCtxPushCurrent_v2"), 1u) << "once for all chunks";

  use_devices({2});
  const CopyJob elsewhere(program_, of_second, of_second);
  EXPECT_FALSE(devices_.holder_of({&elsewhere.job, 1}));
  EXPECT_EQ(code(of_second, of_second), Status::unsupported);
  EXPECT_TRUE(device(0));
}

/// Whatever other threads hold at that moment: the child has no devices, sets options, codes and ends.
TEST_F(SeveralDevices, AChildOfForkWaitsForNothing) {
  const auto o = options();
  std::atomic<bool> over{false};
  const auto busy = threads_of(4, [&](unsigned t) {
    while (!over) {
      (void)devices_.acquire(1);
      if (t == 0) kernels::cuda::configure(o);
    }
  });
  const Buffer pinned = memory(Residence::pinned);
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const auto has_none = [&] {
      kernels::cuda::configure(kernels::cuda::current_options());
      const bool none =
          code(pinned, pinned) == Status::busy && !devices_.acquire_waiting(&why_) && !devices_.current();
      return none && why_ == "this process is a child of fork()" ? 0 : 1;
    };
    EXPECT_EQ(in_child(has_none), 0) << i;
  }
  over = true;
}

TEST_F(SeveralDevices, AStreamIsServedByItsOwnDevice) {
  const Buffer from = memory(Residence::pinned), to = memory(Residence::pinned);
  const CopyJob copy(program_, from, to);
  for (const std::size_t i : {0u, 1u}) {
    const auto its = device(i);
    const Device::Scope scope(*its);
    CUstream stream = nullptr;
    ASSERT_EQ(its->driver().stream_create(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    EXPECT_EQ(devices_.owner_of(stream), its);
    // The emulated driver takes a stream in its own context only.
    EXPECT_EQ(kernels::cuda::backend().enqueue({&copy.job, 1}, kernels::Verb::transform, stream), Status::ok)
        << i;
    its->driver().stream_destroy(stream);
  }
}

TEST_F(SeveralDevices, WaitsForTheStartOfADeviceOnlyWhereNoOtherServes) {
  const auto& driver = device(0)->driver();
  CUcontext kept = nullptr;  // as a program's own does, it keeps the stream
  CUstream stream = nullptr;
  ASSERT_EQ(driver.primary_ctx_retain(&kept, 2), CUDA_SUCCESS);
  {
    const Device::Scope scope(*device(0));
    ASSERT_EQ(driver.stream_create(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  }
  use(kernels::cuda::current_options());
  driver_->reset();
  plan("cuDevicePrimaryCtxRetain:nth=1:slow=3s");
  const auto first = threads_of(1, [&](unsigned) {
    kernels::cuda::Reason why;
    (void)devices_.acquire_waiting(0, &why);
  });
  while (driver_->calls("cuDevicePrimaryCtxRetain") == 0) std::this_thread::yield();
  const auto other = devices_.acquire_waiting(&why_), owner = devices_.owner_of(stream);
  EXPECT_TRUE(other && other->info().ordinal == 0);
  EXPECT_TRUE(owner && owner->info().ordinal == 2);
  EXPECT_EQ(driver.primary_ctx_release(2), CUDA_SUCCESS);
}

/// A kernel that touches the memory of another device ends the context of its own.
TEST_F(SeveralDevices, OnADefaultStreamTheMemoryDecides) {
  const Buffer pinned = memory(Residence::pinned);
  const auto all_well = [&] {
    for (const std::size_t i : {0u, 1u}) {
      const Device::Scope scope(*device(i));
      EXPECT_EQ(device(i)->driver().stream_query(nullptr), CUDA_SUCCESS) << i;
    }
    return !HasFailure();
  };
  auto& gpu = kernels::cuda::backend();
  for (const std::size_t i : {0u, 1u})
    for (const CUstream stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
      const Buffer own = memory(Residence::device, i), word = memory(Residence::device, i);
      const CopyJob coded(program_, own, own), compared(program_, pinned, pinned);
      EXPECT_EQ(gpu.enqueue({&coded.job, 1}, kernels::Verb::transform, stream), Status::ok) << stream;
      ASSERT_TRUE(all_well()) << stream;
      auto* difference = reinterpret_cast<unsigned long long*>(word.data());
      EXPECT_EQ(gpu.compare({&compared.job, 1}, difference, stream), Status::ok) << stream;
      ASSERT_TRUE(all_well()) << "the word, " << stream;
    }
}

TEST_F(SeveralDevices, OnADefaultStreamPinnedMemoryIsTheFirstDevices) {
  const Buffer pinned = memory(Residence::pinned);
  const CopyJob copy(program_, pinned, pinned);
  const auto load = devices_.acquire(1000);
  ASSERT_EQ(next(), 0);
  EXPECT_EQ(devices_.holder_of({&copy.job, 1}), device(0));
  devices_.latch(*device(0), "a test");
  EXPECT_EQ(kernels::cuda::backend().enqueue({&copy.job, 1}, kernels::Verb::transform, nullptr),
            Status::unsupported);
  unsigned long long difference = 0;
  EXPECT_EQ(kernels::cuda::backend().compare({&copy.job, 1}, &difference, nullptr), Status::unsupported);
}

/// The emulated driver runs a kernel only in the context in which it was loaded.
TEST_F(SeveralDevices, EachHasGeneratedKernelsOfItsOwn) {
  const gf::Matrix matrix = gf::coding_matrix(gf::Technique::reed_sol_van, 2, 2);
  const kernels::Program program(matrix);
  for (const std::size_t i : {0u, 1u}) {
    ASSERT_NE(device(i)->generated_kernel(matrix), nullptr);
    const Buffer chunks = memory(Residence::device, i), parity = memory(Residence::device, i);
    const std::size_t half = bytes / 2;
    const Source sources[] = {{chunks.data(), Residence::device}, {chunks.data() + half, Residence::device}};
    const Target targets[] = {{parity.data(), Residence::device}, {parity.data() + half, Residence::device}};
    const kernels::Job job{&program, sources, targets, half};
    EXPECT_EQ(kernels::cuda::backend(KernelKind::generated).transform(job), Status::ok) << i;
  }
  EXPECT_TRUE(device(0) && device(1)) << log_;
}

/// Chips for which there is no machine code, old and new ones, are served by the other kernels.
TEST_F(SeveralDevices, AChipWithoutGeneratedKernelsComesUp) {
  plan("cuModuleLoadData:nth=5:209");  // CUDA_ERROR_NO_BINARY_FOR_GPU
  use_devices({1});
  ASSERT_TRUE(device(0)) << log_;
  EXPECT_EQ(device(0)->generated_kernel(gf::coding_matrix(gf::Technique::reed_sol_van, 2, 2)), nullptr);
  EXPECT_EQ(code(memory(Residence::pinned), memory(Residence::pinned), KernelKind::generated), Status::ok);
}

}  // namespace
}  // namespace ec::test
