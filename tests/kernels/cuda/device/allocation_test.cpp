// A thread in the background that finds no memory costs its work, never the process: each allocation in it
// fails once, and all from one on.
#include "tests/common/allocator.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

class NoMemory : public EmulatedDevice {};

TEST_F(NoMemory, WhileADeviceComesUpLeavesItOffUntilTheNextTry) {
  spare_allocations(true);  // of this thread
  driver_->watch(spare_allocations);
  for (const bool all : {false, true})
    for (unsigned nth = 1, failed = 1; failed != 0; ++nth) {
      begin_shortage_of_all_threads(nth, all);
      use(options());
      (void)bring_up();
      failed = end_shortage();
      use(options());
      ASSERT_TRUE(bring_up()) << log_;
      EXPECT_TRUE(failed != 0 || nth > 11) << nth;
    }
  spare_allocations(false);
}

}  // namespace
}  // namespace ec::test
