// The first use of what a process has once, where memory runs out in it; its use while static objects are
// destroyed, and in a child of fork() whose parent had threads. Each in a process of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace {
/// Allocations that succeed until the others fail, and whether one did.
std::atomic<int> allocations_left{INT_MAX};
std::atomic<bool> ran_out{false};
}  // namespace

void* operator new(std::size_t bytes) {
  if (allocations_left.load() != INT_MAX && allocations_left.fetch_sub(1) <= 0) {
    allocations_left = 0;
    ran_out = true;
    throw std::bad_alloc();
  }
  if (void* place = std::malloc(bytes)) return place;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* place) noexcept { std::free(place); }
[[gnu::noinline]] void operator delete(void* place, std::size_t) noexcept { std::free(place); }

namespace ec::test {
namespace {

/// The exit status of a child that does this; -1 if a signal ended it.
int status_in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // for who waits for ever
    setenv("EC_CUDA_CALIBRATION", "/a/path/that/is/longer/than/what/fits/into/a/string.json", 1);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// What a host does for its first codec.
void make_codec() {
  const codec::NodeSettings& node = codec::node_settings();
  const codec::Codec codec(gf::Technique::cauchy, 6, 3,
                           codec::Router(codec::BackendChoice::cpu, node.threshold_bytes, node.costs.table,
                                         kernels::backends(), codec::stats(), codec::validator(nullptr)));
  if (!codec.plan({gf::ChunkSet{0, 1, 2, 3, 4, 5}, gf::ChunkSet{6}})) throw std::bad_alloc();
}

enum : int { made, failed_then_made, never_made, settings_are_gone };

TEST(FirstUse, AnyAllocationThatFailsIsAnExceptionAndTheNextCallSucceeds) {
  int status = failed_then_made, left = 0;
  for (; status == failed_then_made && left < 1000; ++left)
    status = status_in_child([&]() -> int {
      allocations_left = left;
      try {
        make_codec();
        return ran_out ? never_made : made;
      } catch (const std::bad_alloc&) {
        allocations_left = INT_MAX;
      }
      make_codec();
      return failed_then_made;
    });
  EXPECT_EQ(status, made) << "with memory for " << left - 1 << " allocations";
  EXPECT_GT(left, 20);
}

TEST(Exit, CodecsCanBeMadeWhileStaticObjectsAreDestroyed) {
  const auto body = []() -> int {
    // What is registered first runs last.
    std::atexit([] {
      make_codec();
      _exit(codec::node_settings().calibration == "/a/path/that/is/longer/than/what/fits/into/a/string.json"
                ? made
                : settings_are_gone);
    });
    make_codec();
    std::exit(never_made);
  };
  EXPECT_EQ(status_in_child(body), made);
}

TEST(Fork, AChildMakesCodecsWhateverThreadsOfItsParentHadInHand) {
  std::atomic<bool> stop{false};
  std::thread maker([&] {
    while (!stop) codec::Code::get(gf::Technique::cauchy, 60, 60);  // long in the making
  });
  make_codec();
  for (int i = 0; i < 20; ++i) {
    usleep(2000);
    EXPECT_EQ(status_in_child([]() -> int {
                make_codec();
                return made;
              }),
              made);
    if (HasFailure()) break;
  }
  stop = true;
  maker.join();
}

}  // namespace
}  // namespace ec::test
