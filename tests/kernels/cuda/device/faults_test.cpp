// Whatever the driver does, the host gets right bytes: it fails, hangs, or lies. Each function at each of its
// calls: fault_sites_test.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tests/kernels/cuda/placed_stripes.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;

constexpr unsigned k = 4;
constexpr unsigned m = 2;

/// A stripe in host memory with its views.
struct Stripe {
  Stripe(std::size_t bytes, std::uint64_t seed)
      : data(Random(seed).chunks(k, bytes)), coding(m, oracle::Bytes(bytes, 0xee)) {
    for (const auto& chunk : data) sources.push_back({chunk.data(), Residence::pageable});
    for (auto& chunk : coding) targets.push_back({chunk.data(), Residence::pageable});
  }

  std::vector<oracle::Bytes> data;
  std::vector<oracle::Bytes> coding;
  std::vector<Source> sources;
  std::vector<Target> targets;
};

std::vector<oracle::Bytes> right_coding(const std::vector<oracle::Bytes>& data) {
  return oracle::apply(oracle::coding_matrix("reed_sol_van", k, m), data);
}

/// An encode and an update of one stripe in host memory, through a router that is told to use the device.
class Faults : public EmulatedDevice {
 protected:
  struct Result {
    Status encode;
    Status update;
    bool right;
  };

  Result work(std::size_t bytes = 3000) {
    Stripe stripe(bytes, ++seed_);
    const auto delta = Random(seed_ + 1'000'000).bytes(bytes);
    Result result{};
    result.encode = codec_.encode(stripe.sources, stripe.targets, bytes);
    result.update = codec_.update(1, {delta.data(), Residence::pageable}, stripe.targets, bytes);
    for (std::size_t i = 0; i < bytes; ++i) stripe.data[1][i] ^= delta[i];
    result.right = stripe.coding == right_coding(stripe.data);
    return result;
  }

  void expect_right(const std::string& when) {
    const Result result = work();
    EXPECT_EQ(result.encode, Status::ok) << when;
    EXPECT_EQ(result.update, Status::ok) << when;
    EXPECT_TRUE(result.right) << when;
  }

  static std::uint64_t on_device() { return codec::stats_of("cuda").calls; }

  codec::Codec codec_{gf::Technique::reed_sol_van, k, m, codec::Router(codec::BackendChoice::gpu, 0)};
  std::uint64_t seed_ = 0;
};

TEST_F(Faults, HealthyDeviceDoesTheWork) {
  ASSERT_TRUE(bring_up()) << log_;
  const auto before = on_device();
  expect_right("healthy");
  EXPECT_EQ(on_device(), before + 2);
  EXPECT_EQ(log_, "ec_cuda: device 0 is up: emulated device, compute capability 9.9\n");
}

TEST_F(Faults, FallBacksAreCountedAndLoggedOnce) {
  auto o = options();
  o.retry_after = std::chrono::seconds(3600);
  use(o);
  ASSERT_TRUE(bring_up());
  log_.clear();
  const auto before = codec::stats_of("cuda").fallbacks;
  driver_->fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, true);
  expect_right("first");
  expect_right("latched");
  EXPECT_EQ(codec::stats_of("cuda").fallbacks, before + 4);
  EXPECT_EQ(
      log_,
      "ec_cuda: device 0 is latched off for 3600 s, the CPU codes: the kernel failed: EMULATED_ERROR_719\n");
}

TEST_F(Faults, HungKernelIsGivenUpAndItsLateWriteHitsNothing) {
  ASSERT_TRUE(bring_up());
  driver_->hang();
  const auto start = std::chrono::steady_clock::now();
  Stripe stripe(3000, 7);
  EXPECT_EQ(codec_.encode(stripe.sources, stripe.targets, 3000), Status::ok);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(stripe.coding, right_coding(stripe.data));

  const std::size_t kept = driver_->pinned_bytes();
  EXPECT_GT(kept, 0u) << "staging memory that a late kernel writes must not be freed";
  for (auto& chunk : stripe.coding) std::memset(chunk.data(), 0x55, chunk.size());
  driver_->finish_hung();
  for (const auto& chunk : stripe.coding) EXPECT_EQ(chunk, oracle::Bytes(3000, 0x55));
  EXPECT_GE(driver_->pinned_bytes(), kept);
  driver_->reset();
  ASSERT_TRUE(bring_up()) << log_;
  expect_right("a new device");
}

TEST_F(Faults, HungKernelThatWritesInPlaceIsReported) {
  ASSERT_TRUE(bring_up());
  const auto source = kernels::cuda::Buffer::allocate(4096, Residence::pinned);
  const auto first = kernels::cuda::Buffer::allocate(4096, Residence::pinned);
  const auto second = kernels::cuda::Buffer::allocate(4096, Residence::pinned);
  ASSERT_TRUE(source && first && second);
  const std::vector<Source> sources(k, Source{source.data(), Residence::pinned});
  const std::vector<Target> targets{{first.data(), Residence::pinned}, {second.data(), Residence::pinned}};
  driver_->hang();
  EXPECT_EQ(codec_.encode(sources, targets, 4096), Status::hung);
  driver_->finish_hung();
}

/// An error that says nothing about the kernel must not make its targets anybody's: it may still write them.
TEST_F(Faults, ErrorOfTheQuestionIsNoEndOfTheKernel) {
  ASSERT_TRUE(bring_up());
  driver_->fail("cuStreamQuery", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  const auto before = on_device();
  expect_right("asked again");
  EXPECT_EQ(on_device(), before + 2);

  const auto buffer = kernels::cuda::Buffer::allocate(3 * 4096, Residence::pinned);
  ASSERT_TRUE(buffer);
  const std::vector<Source> sources(k, Source{buffer.data(), Residence::pinned});
  const std::vector<Target> targets{{buffer.data() + 4096, Residence::pinned},
                                    {buffer.data() + 8192, Residence::pinned}};
  // CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_UNKNOWN
  for (const std::string error : {"400", "999"}) {
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;
    ASSERT_EQ(driver_->plan(("launch:every=1:hang;cuStreamQuery:every=1:" + error).c_str()), nullptr);
    EXPECT_EQ(codec_.encode(sources, targets, 4096), Status::hung) << error;
    EXPECT_NE(log_.find("no answer within 50 ms, only EMULATED_ERROR_" + error), std::string::npos) << log_;
  }
}

/// A back end that adds, by itself: what the next one goes on with must be as it was, if all of it is in host
/// memory.
TEST_F(Faults, FaultOfAccumulateLeavesTargetsInHostMemory) {
  for (const Residence residence : {Residence::pageable, Residence::pinned, Residence::device})
    for (const char* plan : {"launch:nth=1:CUDA_ERROR_LAUNCH_FAILED", "launch:nth=1:CUDA_ERROR_OUT_OF_MEMORY",
                             "cuStreamQuery:nth=1:CUDA_ERROR_ILLEGAL_ADDRESS"}) {
      use(options());
      driver_->reset();
      ASSERT_TRUE(bring_up());
      const PlacedStripes stripes({4096, Residence::pageable, residence, Verb::accumulate, 1}, 1);
      ASSERT_TRUE(stripes);
      ASSERT_EQ(driver_->plan(plan), nullptr);
      EXPECT_EQ(kernels::cuda::backend().accumulate(stripes.jobs()[0]), Status::fault) << plan;
      EXPECT_TRUE(residence == Residence::device || stripes.as_before() == true) << plan;
    }
}

TEST_F(Faults, DeviceThatLiesIsRefusedBySelfTest) {
  driver_->corrupt();
  EXPECT_FALSE(bring_up());
  EXPECT_NE(log_.find("self-test: 167 times 0 gave 1"), std::string::npos) << log_;
  expect_right("refused device");
}

TEST_F(Faults, MissingDriverIsSaidOnceAndTheCpuCodes) {
  auto o = options();
  o.driver_library = "libno-such-driver.so.1";
  use(o);
  EXPECT_FALSE(bring_up());
  EXPECT_FALSE(bring_up());
  expect_right("no driver");
  const std::string line = "ec_cuda: no device, the CPU codes: no CUDA driver: ";
  EXPECT_NE(log_.find(line), std::string::npos);
  EXPECT_EQ(log_.find(line), log_.rfind(line));
}

TEST_F(Faults, MissingOrdinalIsNamed) {
  auto o = options();
  o.devices = {3};
  use(o);
  EXPECT_FALSE(bring_up());
  EXPECT_NE(log_.find("device 3 does not exist: this machine has 1 GPU(s)"), std::string::npos) << log_;
}

TEST_F(Faults, ChildOfForkUsesTheCpu) {
  ASSERT_TRUE(bring_up());
  expect_right("the parent");
  const pid_t child = fork();
  if (child == 0) {
    const Result result = work();
    _exit(result.encode == Status::ok && result.right && on_device() == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Faults, NothingIsTouchedBeforeTheFirstJob) {
  const Source source;
  const Target target;
  const kernels::Program program(gf::Matrix(1, 1));
  EXPECT_TRUE(kernels::cuda::backend().supports({&program, {&source, 1}, {&target, 1}, 1}));
  EXPECT_EQ(driver_->all_calls(), 0u);
}

TEST_F(Faults, NothingLeaksOverManyDevices) {
  use(options());
  const auto pinned = driver_->pinned_bytes();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(bring_up());
    expect_right("round");
    use(options());
  }
  EXPECT_EQ(driver_->pinned_bytes(), pinned);
}

}  // namespace
}  // namespace ec::test
