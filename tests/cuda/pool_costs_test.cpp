// What destructors of staging memory may not do: ask for memory, for there may be none.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/pinned_pool.hpp"
#include "tests/cuda/emulated.hpp"
#include "tests/support/call_costs.hpp"

namespace ec::test {
namespace {

using PoolCosts = EmulatedDevice;

TEST_F(PoolCosts, BlocksAreGivenBackWithoutAllocating) {
  std::string why;
  const auto device = kernels::cuda::Device::bring_up(options(), 0, &why);
  ASSERT_TRUE(device) << why;
  const kernels::cuda::Device::Scope scope(*device);
  const auto lend = [&] {
    std::vector<kernels::cuda::PinnedBlock> blocks;
    for (const std::size_t kib : {64, 64, 64, 64, 64, 128, 128, 256})
      blocks.push_back(device->pool().allocate(kib * 1024));
    for (const auto& block : blocks) EXPECT_TRUE(block);
    return blocks;
  };
  for (int turn = 0; turn < 2; ++turn) {
    auto blocks = lend();
    EXPECT_EQ(costs_of([&] { blocks.clear(); }).allocations, 0u) << "turn " << turn;
  }
}

}  // namespace
}  // namespace ec::test
