// Jobs on a stream of the caller, captured into a graph too. On the GPU if there is one, else on the emulated
// device as far as that goes.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/device/memory.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;

constexpr unsigned k = 4, m = 2;

/// Stripes in device memory: of each k chunks of data, then m chunks of poison.
class Streams : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    const auto info = kernels::cuda::bring_up(&why);
    if (!info) GTEST_SKIP() << "no device: " << why;
    emulated_ = info->name == "emulated device";
    device_ = kernels::cuda::Devices::instance().acquire(0).device();
    scope_.emplace(*device_);
    ASSERT_EQ(driver().stream_create(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (stream_ != nullptr) driver().stream_destroy(stream_);
  }

  const kernels::cuda::Driver& driver() const { return device_->driver(); }

  void lay_out(std::size_t stripes, std::size_t bytes) {
    bytes_ = bytes;
    memory_ = kernels::cuda::Buffer::allocate(stripes * (k + m) * bytes, Residence::device);
    ASSERT_TRUE(memory_);
    before_ = Random(bytes).bytes(memory_.size());
    ASSERT_TRUE(memory_.upload(0, before_.data(), before_.size()));
    sources_.clear();
    targets_.clear();
    jobs_.clear();
    const auto chunk = [&](std::size_t s, std::size_t i) {
      return memory_.data() + (s * (k + m) + i) * bytes;
    };
    for (std::size_t s = 0; s < stripes; ++s) {
      for (std::size_t i = 0; i < k; ++i) sources_.push_back({chunk(s, i), Residence::device});
      for (std::size_t i = k; i < k + m; ++i) targets_.push_back({chunk(s, i), Residence::device});
    }
    for (std::size_t s = 0; s < stripes; ++s)
      jobs_.push_back(
          {&program_, std::span(sources_).subspan(s * k, k), std::span(targets_).subspan(s * m, m), bytes});
  }

  void wait() {
    CUresult r = CUDA_ERROR_NOT_READY;
    while (r == CUDA_ERROR_NOT_READY) r = driver().stream_query(stream_);
    ASSERT_EQ(r, CUDA_SUCCESS);
  }

  void expect_coded() {
    std::vector<std::uint8_t> all(memory_.size());
    ASSERT_TRUE(memory_.download(0, all.data(), all.size()));
    for (std::size_t s = 0; s < jobs_.size(); ++s) {
      const auto chunk = [&](const std::vector<std::uint8_t>& from, std::size_t i) {
        const auto at = from.begin() + static_cast<std::ptrdiff_t>((s * (k + m) + i) * bytes_);
        return oracle::Bytes(at, at + static_cast<std::ptrdiff_t>(bytes_));
      };
      std::vector<oracle::Bytes> data;
      for (std::size_t i = 0; i < k; ++i) data.push_back(chunk(before_, i));
      const auto coding = oracle::apply(matrix_, data);
      for (std::size_t i = 0; i < m; ++i) ASSERT_EQ(chunk(all, k + i), coding[i]) << "stripe " << s;
    }
  }

  const oracle::Rows matrix_ = random_matrix(m, k, 3);
  const kernels::Program program_{to_matrix(matrix_)};
  std::shared_ptr<kernels::cuda::Device> device_;
  std::optional<kernels::cuda::Device::Scope> scope_;
  CUstream stream_ = nullptr;
  bool emulated_ = false;
  std::size_t bytes_ = 0;
  kernels::cuda::Buffer memory_;
  std::vector<std::uint8_t> before_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
  std::vector<kernels::Job> jobs_;
};

TEST_F(Streams, OneStripeAndMany) {
  for (const std::size_t stripes : {1u, 7u})
    for (const std::size_t bytes : {48u, 4096u, 5008u}) {
      lay_out(stripes, bytes);
      ASSERT_EQ(kernels::cuda::backend().enqueue(jobs_, stream_), Status::ok);
      wait();
      expect_coded();
    }
}

TEST_F(Streams, ManyByTheGeneratedKernel) {
  if (emulated_) GTEST_SKIP() << "the emulated device runs no generated code";
  lay_out(300, 4096);
  ASSERT_EQ(kernels::cuda::backend(kernels::cuda::KernelKind::generated).enqueue(jobs_, stream_), Status::ok);
  wait();
  expect_coded();
}

TEST_F(Streams, PageableChunksAreRefused) {
  lay_out(1, 4096);
  std::vector<std::uint8_t> host(4096);
  sources_[1] = {host.data(), Residence::pageable};
  EXPECT_EQ(kernels::cuda::backend().enqueue(jobs_, stream_), Status::unsupported);
}

TEST_F(Streams, EmptyChunksFirst) {
  lay_out(2, 4096);
  std::vector<kernels::Job> jobs = jobs_;
  jobs.insert(jobs.begin(), {&program_, jobs_[0].sources, jobs_[0].targets, 0});
  ASSERT_EQ(kernels::cuda::backend().enqueue(jobs, stream_), Status::ok);
  wait();
  expect_coded();
}

TEST_F(Streams, AGraphReplaysWhatWasCaptured) {
  if (emulated_) GTEST_SKIP() << "the emulated device has no graphs";
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto begin =
      reinterpret_cast<PFN_cuStreamBeginCapture_v10010>(dlsym(library, "cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<PFN_cuStreamEndCapture_v10000>(dlsym(library, "cuStreamEndCapture"));
  const auto instantiate =
      reinterpret_cast<PFN_cuGraphInstantiateWithFlags_v11040>(dlsym(library, "cuGraphInstantiateWithFlags"));
  const auto start = reinterpret_cast<PFN_cuGraphLaunch_v10000>(dlsym(library, "cuGraphLaunch"));
  ASSERT_TRUE(begin && end && instantiate && start);
  lay_out(3, 4096);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(kernels::cuda::backend().enqueue(jobs_, stream_), Status::ok);
  ASSERT_EQ(end(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(instantiate(&executable, graph, 0), CUDA_SUCCESS);
  before_ = Random(99).bytes(memory_.size());
  ASSERT_TRUE(memory_.upload(0, before_.data(), before_.size()));
  ASSERT_EQ(start(executable, stream_), CUDA_SUCCESS);
  wait();
  expect_coded();
}

}  // namespace
}  // namespace ec::test
