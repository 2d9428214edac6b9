// Several devices: who gets the work, what one that fails does to the others, memory and streams of their
// own.
#include "kernels/cuda/device/devices.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::cuda::Buffer;
using kernels::cuda::Claim;
using kernels::cuda::Devices;

class SeveralDevices : public EmulatedDevices<3> {
 protected:
  void SetUp() override {
    EmulatedDevices::SetUp();
    auto o = options();
    o.devices = {2, 0};
    use(o);
  }

  static void all_up() {
    std::string why;
    for (const std::size_t i : {0u, 1u}) ASSERT_TRUE(Devices::instance().acquire_waiting(i, &why)) << why;
  }

  static int next() {
    const auto claim = Devices::instance().acquire(0);
    return claim.device() ? claim.device()->info().ordinal : -1;
  }

  static constexpr std::size_t bytes = 5000;
  const kernels::Program program_{gf::Matrix(1, 1)};
  kernels::Backend& gpu_ = kernels::cuda::backend();
};

Source source_of(const Buffer& buffer) { return {buffer.data(), buffer.residence()}; }
Target target_of(const Buffer& buffer) { return {buffer.data(), buffer.residence()}; }

TEST_F(SeveralDevices, WorkGoesToTheOneWithTheLeastUnderWay) {
  all_up();
  EXPECT_EQ(Devices::instance().up(), 2u);
  std::string why;
  const auto first = Devices::instance().acquire_waiting(0, &why);
  const auto second = Devices::instance().acquire_waiting(1, &why);
  EXPECT_EQ(first->info().ordinal, 2);
  EXPECT_EQ(second->info().ordinal, 0);
  EXPECT_EQ(next(), 2) << "both idle: the order of the setting";
  const auto ordinal = [](const Claim& claim) { return claim.device()->info().ordinal; };
  {
    const auto a = Devices::instance().acquire(1000);
    EXPECT_EQ(ordinal(a), 2);
    const auto b = Devices::instance().acquire(5000);
    EXPECT_EQ(ordinal(b), 0);
    const auto c = Devices::instance().acquire(5000);
    EXPECT_EQ(ordinal(c), 2);
    EXPECT_EQ(next(), 0);
  }
  EXPECT_EQ(next(), 2) << "nothing is under way any more";
}

TEST_F(SeveralDevices, OneThatFailsLeavesTheWorkToTheOther) {
  auto o = options();
  o.devices = {2, 0};
  o.retry_after = std::chrono::seconds(3600);
  use(o);
  all_up();
  std::string why;
  Devices::instance().latch(Devices::instance().acquire_waiting(0, &why), "a test");
  EXPECT_NE(log_.find("device 2 is latched off for 3600 s"), std::string::npos) << log_;
  EXPECT_EQ(Devices::instance().up(), 1u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), 0);
  const auto pinned = Buffer::allocate(2 * bytes, Residence::pinned, 1);
  const Source source = source_of(pinned);
  const Target target{pinned.data() + bytes, Residence::pinned};
  EXPECT_EQ(gpu_.transform({&program_, {&source, 1}, {&target, 1}, bytes}), Status::ok);
}

TEST_F(SeveralDevices, OneThatIsNotThereIsSaidAndLeftOut) {
  auto o = options();
  o.devices = {1, 7};
  use(o);
  std::string why;
  EXPECT_TRUE(Devices::instance().acquire_waiting(0, &why));
  EXPECT_FALSE(Devices::instance().acquire_waiting(1, &why));
  EXPECT_EQ(why, "device 7 does not exist: this machine has 3 GPU(s)");
  EXPECT_FALSE(Devices::instance().acquire_waiting(2, &why));
  EXPECT_EQ(next(), 1);
}

TEST_F(SeveralDevices, DeviceMemoryIsCodedWhereItLies) {
  all_up();
  for (const std::size_t i : {0u, 1u}) {
    const auto in = Buffer::allocate(bytes, Residence::device, i);
    const auto out = Buffer::allocate(bytes, Residence::device, i);
    const Source source = source_of(in);
    const Target target = target_of(out);
    // The emulated driver lets no device touch the memory of another.
    EXPECT_EQ(gpu_.transform({&program_, {&source, 1}, {&target, 1}, bytes}), Status::ok) << i;
  }
  EXPECT_EQ(Devices::instance().up(), 2u);
}

TEST_F(SeveralDevices, ChunksOnTwoDevicesAreRefusedAndLatchNothing) {
  all_up();
  const auto in = Buffer::allocate(bytes, Residence::device, 0);
  const auto out = Buffer::allocate(bytes, Residence::device, 1);
  const Source source = source_of(in);
  const Target target = target_of(out);
  EXPECT_EQ(gpu_.transform({&program_, {&source, 1}, {&target, 1}, bytes}), Status::fault);
  EXPECT_EQ(Devices::instance().up(), 2u);
}

TEST_F(SeveralDevices, MemoryOfADeviceThatIsNotInUseIsRefusedAndLatchesNothing) {
  all_up();
  const auto in = Buffer::allocate(bytes, Residence::device, 1);
  auto o = options();
  o.devices = {2};
  use(o);
  const Source source = source_of(in);
  const Target target = target_of(in);
  std::string why;
  const Job job{&program_, {&source, 1}, {&target, 1}, bytes};
  EXPECT_FALSE(Devices::instance().holder_of({&job, 1}, &why));
  EXPECT_EQ(why, "the chunks lie in the memory of GPU 0, which is not among the devices in use");
  EXPECT_EQ(gpu_.transform(job), Status::fault);
  EXPECT_EQ(Devices::instance().up(), 1u);
}

/// Whatever other threads hold at that moment: the child has no devices, sets options, codes and ends.
TEST_F(SeveralDevices, AChildOfForkWaitsForNothing) {
  all_up();
  const auto o = options();
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 4; ++t)
    busy.emplace_back([&] {
      while (!over) {
        (void)Devices::instance().acquire(1);
        (void)Devices::instance().up();
        if (t == 0) kernels::cuda::configure(o);
      }
    });
  const auto pinned = Buffer::allocate(2 * bytes, Residence::pinned);
  const Source source = source_of(pinned);
  const Target target{pinned.data() + bytes, Residence::pinned};
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      std::string why;
      kernels::cuda::configure(kernels::cuda::current_options());
      const bool none = gpu_.transform({&program_, {&source, 1}, {&target, 1}, bytes}) == Status::busy &&
                        !Devices::instance().acquire_waiting(&why) && Devices::instance().up() == 0 &&
                        !Devices::instance().current();
      _exit(none && why == "this process is a child of fork()" ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << i;
  }
  over = true;
  for (auto& thread : busy) thread.join();
}

TEST_F(SeveralDevices, AStreamIsServedByItsOwnDevice) {
  all_up();
  const auto pinned = Buffer::allocate(2 * bytes, Residence::pinned);
  const Source source = source_of(pinned);
  const Target target{pinned.data() + bytes, Residence::pinned};
  const Job job{&program_, {&source, 1}, {&target, 1}, bytes};
  for (const std::size_t i : {0u, 1u}) {
    std::string why;
    const auto device = Devices::instance().acquire_waiting(i, &why);
    const kernels::cuda::Device::Scope scope(*device);
    CUstream stream = nullptr;
    ASSERT_EQ(device->driver().stream_create(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    EXPECT_EQ(Devices::instance().owner_of(stream), device);
    // The emulated driver takes a stream in its own context only.
    EXPECT_EQ(gpu_.enqueue({&job, 1}, stream), Status::ok) << i;
    device->driver().stream_destroy(stream);
  }
}

}  // namespace
}  // namespace ec::test
