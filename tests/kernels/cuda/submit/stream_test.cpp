// Jobs on a stream of the caller, captured into a graph too. On the GPU if there is one, else on the emulated
// device as far as that goes.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "tests/common/placed_stripes.hpp"

namespace ec::test {
namespace {

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    kernels::cuda::Reason why;
    device_ = kernels::cuda::Devices::instance().acquire_waiting(&why);
    if (!device_) GTEST_SKIP() << "no device: " << why.c_str();
    emulated_ = device_->info().name == "emulated device";
    scope_.emplace(*device_);
    ASSERT_EQ(driver().stream_create(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (stream_ != nullptr) driver().stream_destroy(stream_);
  }

  const kernels::cuda::Driver& driver() const { return device_->driver(); }

  static PlacedStripes::Shape on_device(std::size_t count, std::size_t bytes) {
    return {bytes, Residence::device, Residence::device, Verb::transform, count, true};
  }
  void wait() {
    CUresult r = CUDA_ERROR_NOT_READY;
    while (r == CUDA_ERROR_NOT_READY) r = driver().stream_query(stream_);
    ASSERT_EQ(r, CUDA_SUCCESS);
  }

  void expect_coded(const PlacedStripes& stripes) {
    wait();
    EXPECT_EQ(stripes.right(), true);
  }

  std::shared_ptr<kernels::cuda::Device> device_;
  std::optional<kernels::cuda::Device::Scope> scope_;
  CUstream stream_ = nullptr;
  bool emulated_ = false;
};

/// A chunk of 48 bytes is none for the generated kernel, and empty ones may come first. That pageable chunks
/// are refused: tests/plugin/library/device_test.cpp.
TEST_F(Streams, OneStripeAndMany) {
  using kernels::cuda::KernelKind;
  for (const auto& [kind, count, bytes] : {std::tuple{KernelKind::automatic, 1u, 48u},
                                           {KernelKind::automatic, 1u, 4096u},
                                           {KernelKind::automatic, 7u, 48u},
                                           {KernelKind::automatic, 7u, 5008u},
                                           {KernelKind::generated, 300u, 4096u}})
    for (const bool empty_first : {false, true}) {
      const PlacedStripes stripes(on_device(count, bytes), bytes);
      std::vector<kernels::Job> jobs(stripes.jobs().begin(), stripes.jobs().end());
      if (empty_first) jobs.insert(jobs.begin(), {&stripes.program(), jobs[0].sources, jobs[0].targets, 0});
      ASSERT_EQ(kernels::cuda::backend(kind).enqueue(jobs, kernels::Verb::transform, stream_), Status::ok);
      expect_coded(stripes);
    }
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
  PlacedStripes stripes(on_device(3, 4096), 1);
  const PlacedStripes others(on_device(3, 4096), 2);
  const PlacedStripes pageable({4096, Residence::pageable, Residence::pageable}, 3);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(kernels::cuda::backend().enqueue(stripes.jobs(), kernels::Verb::transform, stream_), Status::ok);
  // Jobs meanwhile, or a device that comes up, in other threads, do not end the capture.
  std::thread([&] {
    EXPECT_EQ(kernels::cuda::backend().transform_all(others.jobs()), Status::ok);
    EXPECT_EQ(kernels::cuda::backend().transform(pageable.jobs()[0]), Status::ok);
  }).join();
  std::thread([] {
    EXPECT_TRUE(kernels::cuda::Device::bring_up(kernels::cuda::current_options(), 0));
  }).join();
  ASSERT_EQ(end(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(instantiate(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_TRUE(stripes.refill(99));
  ASSERT_EQ(start(executable, stream_), CUDA_SUCCESS);
  expect_coded(stripes);
  EXPECT_EQ(others.right(), true);
  EXPECT_EQ(pageable.right(), true);
}

}  // namespace
}  // namespace ec::test
