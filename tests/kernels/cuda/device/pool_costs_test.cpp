// What destructors of staging memory may not do: ask for memory, for there may be none.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/device/pinned_pool.hpp"
#include "tests/common/call_costs.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using PoolCosts = EmulatedDevice;

TEST_F(PoolCosts, BlocksAreGivenBackWithoutAllocating) {
  std::string why;
  const auto device = kernels::cuda::Device::bring_up(options(), 0, &why);
  ASSERT_TRUE(device) << why;
  const kernels::cuda::Device::Scope scope(*device);
  using Sizes = std::vector<std::size_t>;
  // The same again; more than before; one that takes all the others' place; and they take its place.
  for (const Sizes& sizes : {Sizes{64, 64, 64, 128, 128}, Sizes{64, 64, 64, 128, 128},
                             Sizes{64, 64, 64, 64, 64, 64, 128, 128, 128}, Sizes{1024}, Sizes(16, 64)}) {
    std::vector<kernels::cuda::PinnedBlock> blocks;
    for (const std::size_t kib : sizes) blocks.push_back(device->pool().allocate(kib * 1024));
    for (const auto& block : blocks) EXPECT_TRUE(block);
    EXPECT_EQ(costs_of([&] { blocks.clear(); }).allocations, 0u) << sizes.size() << " of " << sizes[0];
  }
}

}  // namespace
}  // namespace ec::test
