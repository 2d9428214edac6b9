// A device that lies: its bytes are brought to the host and compared, wherever they lie.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/cuda/device/memory.hpp"
#include "kernels/transfer.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "plugin/codec/routing/router.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;
using kernels::Transfer;
using kernels::cuda::Buffer;

constexpr unsigned k = 3, m = 2;

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
      there_.push_back(std::vector<std::uint8_t>(lengths[i], 0xee));
      here_ = there_;
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto residence = static_cast<Residence>(i % 3);
      buffers_.push_back(residence == Residence::pageable ? Buffer()
                                                          : Buffer::allocate(lengths[i] + 1, residence));
      std::uint8_t* there = residence == Residence::pageable ? there_[i].data() : buffers_.back().data();
      pieces_.push_back({there, residence, nullptr, lengths[i]});
    }
  }
  Status store() { return kernels::store(to(content_)); }
  Status fetch() { return kernels::fetch(to(here_)); }
  std::span<const Transfer> to(std::vector<oracle::Bytes>& chunks) {
    for (std::size_t i = 0; i < chunks.size(); ++i) pieces_[i].here = chunks[i].data();
    return pieces_;
  }

  std::vector<oracle::Bytes> content_, there_, here_;
  std::vector<Buffer> buffers_;
  std::vector<Transfer> pieces_;
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
    driver_->fail(function, 1, CUDA_ERROR_LAUNCH_FAILED, true);
    const bool stores = std::string_view(function) != "cuMemcpyDtoHAsync_v2";
    EXPECT_EQ(stores ? store() : fetch(), Status::fault) << function;
    EXPECT_EQ(kernels::cuda::Devices::instance().current(), nullptr) << function;
  }
  driver_->reset();
  EXPECT_EQ(fetch(), Status::fault) << "no device is up, and none is brought up";
}

/// A job on chunks of one residence, watched by a validator of its own.
class LyingDevice : public OnDevice {
 protected:
  void lay_out(Residence residence, std::size_t bytes) {
    data_ = Random(1).chunks(k, bytes);
    before_ = Random(2).chunks(m, bytes);
    const auto place = [&](oracle::Bytes& content) {
      if (residence == Residence::pageable) return content.data();
      buffers_.push_back(Buffer::allocate(bytes, residence));
      EXPECT_TRUE(buffers_.back().upload(0, content.data(), bytes));
      return buffers_.back().data();
    };
    host_ = before_;
    for (auto& chunk : data_) sources_.push_back({place(chunk), residence});
    for (auto& chunk : host_) targets_.push_back({place(chunk), residence});
    job_ = {&program_, sources_, targets_, bytes};
  }
  std::vector<oracle::Bytes> result() const {
    auto all = before_;
    std::vector<Transfer> pieces;
    for (unsigned i = 0; i < m; ++i)
      pieces.push_back({targets_[i].data, targets_[i].residence, all[i].data(), all[i].size()});
    EXPECT_EQ(kernels::fetch(pieces), Status::ok);
    return all;
  }
  std::vector<oracle::Bytes> product() const { return oracle::apply(matrix_, data_); }
  codec::Router router() {
    return codec::Router(codec::BackendChoice::gpu, 0, codec::default_costs(), kernels::backends(), counts_,
                         validator_);
  }

  void expect_righted(Residence residence) {
    lay_out(residence, 10'000);
    driver_->corrupt();
    EXPECT_EQ(router().transform(job_), Status::ok);
    EXPECT_EQ(result(), product());
    EXPECT_EQ(counts_.read(0).calls, 0u);
    EXPECT_EQ(counts_.read(0).fallbacks, 1u);
    EXPECT_EQ(validator_.read(0).mismatches, 1u);
    EXPECT_EQ(validator_.off(), 1u);
  }

  const oracle::Rows matrix_ = random_matrix(m, k, 3);
  const kernels::Program program_{to_matrix(matrix_)};
  std::vector<oracle::Bytes> data_, before_, host_;
  std::vector<Buffer> buffers_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
  kernels::Job job_;
  codec::Counters counts_;
  codec::Validator validator_{{.every = 1, .whole = true}};
};

TEST_F(LyingDevice, IsRightedByTheCpuInPageableMemory) { expect_righted(Residence::pageable); }
TEST_F(LyingDevice, IsRightedByTheCpuInPinnedMemory) { expect_righted(Residence::pinned); }

TEST_F(LyingDevice, InItsOwnMemoryIsAFaultOfTheCall) {
  lay_out(Residence::device, 10'000);
  EXPECT_EQ(router().transform(job_), Status::ok);
  EXPECT_EQ(validator_.read(0).checked, 1u);
  driver_->corrupt();
  EXPECT_EQ(router().transform(job_), Status::fault);
  EXPECT_EQ(validator_.off(), 1u);
  const auto calls = driver_->calls("cuLaunchKernel");
  EXPECT_EQ(router().transform(job_), Status::fault) << "it is not asked again";
  EXPECT_EQ(router().enqueue({&job_, 1}, nullptr), Status::fault);
  EXPECT_EQ(driver_->calls("cuLaunchKernel"), calls);
}

TEST_F(LyingDevice, LeavesTheTargetsOfAnUpdateAsTheyWere) {
  lay_out(Residence::device, 300'000);
  driver_->corrupt();
  EXPECT_EQ(router().accumulate(job_), Status::fault);
  EXPECT_EQ(result(), before_);
  EXPECT_EQ(validator_.read(0).mismatches, 1u);
}

TEST_F(LyingDevice, ThatFailsWhileItIsCheckedIsAFault) {
  lay_out(Residence::device, 1000);
  driver_->fail("cuMemcpyDtoHAsync_v2", 1, CUDA_ERROR_LAUNCH_FAILED, true);
  EXPECT_EQ(router().transform(job_), Status::fault);
  EXPECT_EQ(validator_.off(), 0u) << "it said so itself";
  EXPECT_EQ(validator_.read(0).mismatches, 0u);
}

/// The device, of which others have all lanes until the job itself begins.
class BusyUntilTheJob final : public kernels::Backend {
 public:
  BusyUntilTheJob() {
    const auto device = kernels::cuda::Devices::instance().current();
    while (auto lane = device->borrow_lane()) lanes_.push_back(std::move(*lane));
  }
  std::string_view name() const noexcept override { return "cuda"; }
  bool supports(const kernels::Job&) const noexcept override { return true; }
  Status transform(const kernels::Job&) noexcept override { return Status::unsupported; }
  Status accumulate(const kernels::Job& job) noexcept override {
    lanes_.clear();
    return kernels::cuda::backend().accumulate(job);
  }

 private:
  std::vector<kernels::cuda::Device::Lane> lanes_;
};

TEST_F(LyingDevice, WithoutALaneForACopyIsNotChecked) {
  lay_out(Residence::device, 300'000);
  BusyUntilTheJob busy;
  kernels::Backend* const list[] = {&busy, kernels::backends().back()};
  const codec::Router router(codec::BackendChoice::gpu, 0, codec::default_costs(), list, counts_, validator_);
  auto sum = product();
  for (unsigned i = 0; i < m; ++i)
    for (std::size_t b = 0; b < sum[i].size(); ++b) sum[i][b] ^= before_[i][b];
  EXPECT_EQ(router.accumulate(job_), Status::ok);
  EXPECT_EQ(validator_.read(0).unchecked, 1u);
  EXPECT_EQ(result(), sum);
}

}  // namespace
}  // namespace ec::test
