// A device that lies: its bytes are brought to the host and compared, wherever they lie.
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/transfer.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "plugin/codec/routing/router.hpp"
#include "tests/common/fake_backend.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

class OnDevice : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    ASSERT_TRUE(bring_up()) << log_;
  }
};

// A slab is 64 KiB here, so some pieces need several rounds and some share one. Devices that fail at it:
// fault_sites_test.cpp.
TEST_F(OnDevice, EveryByteIsBroughtThereAndBack) {
  for (const auto residence : {Residence::pageable, Residence::pinned, Residence::device})
    for (const std::size_t bytes : {0, 1, 17, 4096, 65'536, 100'000, 131'072, 700'000, 3'000'001}) {
      auto content = Random(bytes).bytes(bytes);
      oracle::Bytes back(bytes, 0xee);
      const auto there = tools::Buffer::allocate(bytes + 1, residence);
      ASSERT_EQ(kernels::store({there.data(), residence, content.data(), bytes}), Status::ok) << bytes;
      ASSERT_EQ(kernels::fetch({there.data(), residence, back.data(), bytes}), Status::ok) << bytes;
      EXPECT_TRUE(back == content) << bytes;
    }
  kernels::cuda::Devices::instance().reset();
  std::uint8_t byte = 0;
  const kernels::Transfer transfer{&byte, Residence::device, &byte, 1};
  EXPECT_EQ(kernels::fetch(transfer), Status::fault) << "no device is up, and none is brought up";
}

/// Stripes of one residence, watched by a validator of their own.
class LyingDevice : public OnDevice {
 protected:
  static PlacedStripes::Shape all_in(Residence residence, std::size_t bytes, Verb verb = Verb::transform) {
    return {bytes, residence, residence, verb};
  }
  codec::Router router() {
    return codec::Router(codec::BackendChoice::gpu, 0, kernels::backends(), counts_, validator_);
  }

  codec::Stats counts_;
  codec::Validator validator_{{.every = 1, .whole = true}};
};

TEST_F(LyingDevice, InItsOwnMemoryIsAFaultOfTheCall) {
  const PlacedStripes stripe(all_in(Residence::device, 10'000), 1);
  const auto jobs = stripe.jobs();
  EXPECT_EQ(router().transform(jobs[0]), Status::ok);
  EXPECT_EQ(validator_.counts()[0].checked, 1u);
  plan("launch:every=1:wrong");
  EXPECT_EQ(router().transform(jobs[0]), Status::fault);
  EXPECT_EQ(validator_.off(), 1u);
  const auto calls = driver_->calls("cuLaunchKernel");
  EXPECT_EQ(router().transform(jobs[0]), Status::fault) << "it is not asked again";
  EXPECT_EQ(router().enqueue(jobs, nullptr), Status::fault);
  EXPECT_EQ(driver_->calls("cuLaunchKernel"), calls);
}

TEST_F(LyingDevice, LeavesTheTargetsOfAnUpdateAsTheyWere) {
  const PlacedStripes stripe(all_in(Residence::device, 300'000, Verb::accumulate), 1);
  plan("launch:every=1:wrong");
  EXPECT_EQ(router().transform(stripe.jobs()[0], codec::Operation::update), Status::fault);
  EXPECT_EQ(stripe.as_before(), true);
  EXPECT_EQ(validator_.counts()[0].mismatches, 1u);
}

TEST_F(LyingDevice, ThatFailsWhileItIsCheckedIsAFault) {
  const PlacedStripes stripe(all_in(Residence::device, 1000), 1);
  plan("cuMemcpyDtoHAsync:nth=1:CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_EQ(router().transform(stripe.jobs()[0]), Status::fault);
  EXPECT_EQ(validator_.off(), 0u) << "it said so itself";
  EXPECT_EQ(validator_.counts()[0].mismatches, 0u);
}

TEST_F(LyingDevice, WithoutALaneForACopyIsNotChecked) {
  const PlacedStripes stripe(all_in(Residence::device, 300'000, Verb::accumulate), 1);
  // Others have all lanes until the job itself begins.
  std::vector<kernels::cuda::Device::BorrowedLane> lanes;
  const auto device = kernels::cuda::Devices::instance().current();
  while (auto lane = device->borrow_lane()) lanes.push_back(std::move(lane));
  FakeBackend busy("cuda", kernels::BackendKind::device, kernels::cuda::backend(), nullptr);
  busy.meanwhile = [&] { lanes.clear(); };
  kernels::Backend* const list[] = {&busy, kernels::backends().back()};
  const codec::Router router(codec::BackendChoice::gpu, 0, list, counts_, validator_);
  EXPECT_EQ(router.transform(stripe.jobs()[0], codec::Operation::update), Status::ok);
  EXPECT_EQ(validator_.counts()[0].unchecked, 1u);
  EXPECT_EQ(stripe.right(), true);
}

/// Others take all lanes between a job and its check.
TEST_F(LyingDevice, IsCheckedWhenALaneIsFreeAgainOrNotAtAll) {
  for (const bool freed : {false, true}) {
    auto o = options();
    if (freed) o.deadline = std::chrono::minutes(1);
    use(o);
    ASSERT_TRUE(bring_up()) << log_;
    const PlacedStripes stripe(all_in(Residence::device, 1000), 1);
    std::vector<kernels::cuda::Device::BorrowedLane> lanes;
    std::jthread others;
    FakeBackend busy("cuda", kernels::BackendKind::device, kernels::cuda::backend(), [&](auto) {
      const auto device = kernels::cuda::Devices::instance().current();
      while (auto lane = device->borrow_lane()) lanes.push_back(std::move(lane));
      if (freed)
        others = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          lanes.clear();
        });
    });
    kernels::Backend* const list[] = {&busy, kernels::backends().back()};
    const codec::Router router(codec::BackendChoice::gpu, 0, list, counts_, validator_);
    EXPECT_EQ(router.transform(stripe.jobs()[0]), Status::ok);
    EXPECT_EQ(validator_.counts()[0].checked, freed ? 1u : 0u);
    EXPECT_EQ(validator_.counts()[0].unchecked, 1u);
  }
}

TEST_F(LyingDevice, ThatHangsWhileTargetsArePutBackMayStillWrite) {
  const PlacedStripes stripe(all_in(Residence::device, 1000, Verb::accumulate), 1);
  FakeBackend floor("reference", kernels::BackendKind::floor, *kernels::backends().back(), nullptr);
  floor.meanwhile = [&] { plan("cuStreamQuery:every=1:CUDA_ERROR_NOT_READY"); };
  kernels::Backend* const list[] = {&kernels::cuda::backend(), &floor};
  plan("launch:every=1:wrong");
  const codec::Router router(codec::BackendChoice::gpu, 0, list, counts_, validator_);
  EXPECT_EQ(router.transform(stripe.jobs()[0], codec::Operation::update), Status::hung);
  EXPECT_EQ(validator_.counts()[0].mismatches, 1u);
}

}  // namespace
}  // namespace ec::test
