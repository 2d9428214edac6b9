// A thread in the background that finds no memory costs its work, never the process: each allocation in it
// fails once, and all from one on.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/kernels/cuda/emulated.hpp"

namespace {

const pthread_t main_thread = pthread_self();
/// Allocations in other threads until one fails; 0 and below: none does.
std::atomic<int> left{0};
std::atomic<bool> all_from_there{false};
std::atomic<unsigned> failed{0};

bool fails() {
  if (pthread_equal(pthread_self(), main_thread) || left <= 0) return false;
  if (left != 1 && --left > 0) return false;
  if (!all_from_there) left = 0;
  ++failed;
  return true;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* p = fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace ec::test {
namespace {

class NoMemory : public EmulatedDevice {
 protected:
  /// `work` while the nth allocation in the background fails, or `all` from there on, for every n that there
  /// is.
  template <class Work>
  void at_each_allocation(bool all, Work&& work) {
    unsigned visited = 0;
    for (int nth = 1;; ++nth) {
      failed = 0;
      all_from_there = all;
      left = nth;
      work();
      left = 0;
      if (failed == 0) break;
      ++visited;
    }
    EXPECT_GT(visited, 10u);
  }
};

TEST_F(NoMemory, WhileADeviceComesUpLeavesItOffUntilTheNextTry) {
  for (const bool all : {false, true})
    at_each_allocation(all, [] {
      use(options());
      (void)bring_up();
      left = 0;
      use(options());
      ASSERT_TRUE(bring_up()) << log_;
    });
}

}  // namespace
}  // namespace ec::test
