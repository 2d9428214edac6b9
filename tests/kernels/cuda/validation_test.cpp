// A device that lies: its bytes are brought to the host and compared, wherever they lie.
#include <memory>
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

using kernels::Residence;
using kernels::Status;
using kernels::Transfer;

class OnDevice : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    ASSERT_TRUE(bring_up()) << log_;
  }
};

class Transfers : public OnDevice {
 protected:
  /// Chunks of these lengths in memory of all three residences in turn.
  void lay_out(const std::vector<std::size_t>& lengths) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      content_.push_back(Random(i).bytes(lengths[i]));
      here_.push_back(oracle::Bytes(lengths[i], 0xee));
      there_.push_back(std::make_unique<PlacedMemory>(static_cast<Residence>(i % 3), lengths[i] + 1));
    }
  }
  Status store() { return move(kernels::store, content_); }
  Status fetch() { return move(kernels::fetch, here_); }
  /// The first status that is not ok; no piece is moved after it.
  Status move(Status (*by)(const Transfer&) noexcept, std::vector<oracle::Bytes>& chunks) {
    Status status = Status::ok;
    for (std::size_t i = 0; i < chunks.size() && status == Status::ok; ++i)
      status = by({there_[i]->data(), static_cast<Residence>(i % 3), chunks[i].data(), chunks[i].size()});
    return status;
  }

  std::vector<oracle::Bytes> content_, here_;
  std::vector<std::unique_ptr<PlacedMemory>> there_;
};

// A slab is 64 KiB here, so some pieces need several rounds and some share one.
TEST_F(Transfers, BringEveryByteThereAndBack) {
  lay_out({1, 0, 5, 4096, 100'000, 3'000'001, 17, 65'536, 131'072, 1, 2, 700'000});
  ASSERT_EQ(store(), Status::ok);
  ASSERT_EQ(fetch(), Status::ok);
  EXPECT_EQ(here_, content_);
}

TEST_F(Transfers, OfAFailingDeviceAreFaultsAndLatchItOff) {
  lay_out({100, 100, 100});
  for (const char* function : {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamQuery"}) {
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;
    plan(std::string(function) + ":nth=1:CUDA_ERROR_LAUNCH_FAILED");
    const bool stores = std::string_view(function) != "cuMemcpyDtoHAsync_v2";
    EXPECT_EQ(stores ? store() : fetch(), Status::fault) << function;
    EXPECT_EQ(kernels::cuda::Devices::instance().current(), nullptr) << function;
  }
  driver_->reset();
  EXPECT_EQ(fetch(), Status::fault) << "no device is up, and none is brought up";
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
  EXPECT_EQ(validator_.read(0).checked, 1u);
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
  EXPECT_EQ(router().accumulate(stripe.jobs()[0]), Status::fault);
  EXPECT_EQ(stripe.as_before(), true);
  EXPECT_EQ(validator_.read(0).mismatches, 1u);
}

TEST_F(LyingDevice, ThatFailsWhileItIsCheckedIsAFault) {
  const PlacedStripes stripe(all_in(Residence::device, 1000), 1);
  plan("cuMemcpyDtoHAsync:nth=1:CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_EQ(router().transform(stripe.jobs()[0]), Status::fault);
  EXPECT_EQ(validator_.off(), 0u) << "it said so itself";
  EXPECT_EQ(validator_.read(0).mismatches, 0u);
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
  EXPECT_EQ(router.accumulate(stripe.jobs()[0]), Status::ok);
  EXPECT_EQ(validator_.read(0).unchecked, 1u);
  EXPECT_EQ(stripe.right(), true);
}

}  // namespace
}  // namespace ec::test
