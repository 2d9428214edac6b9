// Generated kernels on the device: right for every code of the list, at every length. On the GPU if there is
// one, else on the emulated device, which computes by the matrix alone and proves what is around the kernels.
#include "kernels/cuda/generate/generated_codes.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "tests/common/placed_stripes.hpp"

namespace ec::test {
namespace {

using kernels::cuda::GeneratedCode;
using kernels::cuda::KernelKind;

class Generated : public testing::Test {
 protected:
  void SetUp() override {
    // The sums of 32+8 must fit a lane's part.
    auto options = kernels::cuda::current_options();
    options.staging_bytes = std::size_t{256} << 20;
    options.alone_in_process = true;  // as in a daemon: without stacks
    kernels::cuda::configure(options);
    kernels::cuda::Reason why;
    if (!kernels::cuda::bring_up(&why)) GTEST_SKIP() << "no device " << why.c_str();
    device_ = kernels::cuda::Devices::instance().current();
  }

  static void run(const JobCase& c, Residence residence) {
    const auto outcome = run_case(kernels::cuda::backend(KernelKind::generated), c, *arena_of(residence));
    EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  }

  std::shared_ptr<kernels::cuda::Device> device_;
};

TEST_F(Generated, EveryCodeHasKernels) {
  EXPECT_GE(kernels::cuda::generated_codes().size(), 10u);
  for (const GeneratedCode& code : kernels::cuda::generated_codes()) {
    const gf::Matrix matrix = code.matrix();
    const auto* kernel = device_->generated_kernel(matrix);
    ASSERT_NE(kernel, nullptr) << code.name;
    EXPECT_TRUE(kernel->one && kernel->many) << code.name;
    gf::Matrix other = matrix;
    other(code.m - 1, code.k - 1) ^= 1;
    EXPECT_EQ(device_->generated_kernel(other), nullptr) << code.name;
  }
}

TEST_F(Generated, OneStripeOfEveryLength) {
  std::uint64_t seed = 0;
  for (const GeneratedCode& code : kernels::cuda::generated_codes())
    for (const auto residence : {Residence::device, Residence::pinned, Residence::pageable})
      for (const std::size_t bytes :
           {1008u, 1024u, 1025u, 1040u, 2032u, 2048u, 4096u, 65536u + 48u, 262144u + 17u}) {
        SCOPED_TRACE(std::string(code.name) + ", bytes=" + std::to_string(bytes));
        run({to_rows(code.matrix()), bytes, Verb::transform, {}, {}, ++seed}, residence);
      }
}

TEST_F(Generated, ManyStripes) {
  for (const GeneratedCode& code : kernels::cuda::generated_codes())
    for (const auto residence : {Residence::device, Residence::pinned})
      for (const std::size_t bytes : {1008u, 1024u, 4096u, 4099u, 17'040u})
        for (const std::size_t stripes : {2u, 33u}) {
          SCOPED_TRACE(std::string(code.name) + ", bytes=" + std::to_string(bytes));
          run({to_rows(code.matrix()), bytes, Verb::transform, {}, {}, bytes, stripes}, residence);
        }
}

/// More addresses than a lane's table holds, so that the call is several launches.
TEST_F(Generated, MoreStripesThanATableHolds) {
  const PlacedStripes stripes({.bytes = 1024,
                               .sources = Residence::device,
                               .targets = Residence::device,
                               .count = 35'000,
                               .generated = true,
                               .k = 2,
                               .m = 2},
                              1);
  ASSERT_TRUE(stripes);
  ASSERT_GT(stripes.shape().count * 4 * sizeof(void*), kernels::cuda::Device::Lane::table_bytes);
  ASSERT_EQ(kernels::cuda::backend(KernelKind::generated).transform_all(stripes.jobs()), kernels::Status::ok);
  EXPECT_EQ(stripes.right(), true);
}

}  // namespace
}  // namespace ec::test
