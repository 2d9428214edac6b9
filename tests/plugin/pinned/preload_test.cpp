// What an allocator owes its program, with libec_cuda_pinned.so in front of it and no driver anywhere: run
// under LD_PRELOAD, each test in a process of its own.
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tests/common/child.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/common/threads.hpp"
#include "tests/plugin/pinned/preload.hpp"

namespace ec::test {
namespace {

constexpr std::size_t threshold = 32 * KiB;

void* aligned(std::size_t alignment, std::size_t bytes) {
  void* p = nullptr;
  return posix_memalign(&p, alignment, bytes) == 0 ? p : nullptr;
}

/// The address without what the compiler knows of its block: these tests do on purpose what it warns of.
[[gnu::noipa]] void* opaque(void* p) { return p; }

/// Freed by the handler of a fork(): registered before the preload's constructor, as a library's may be.
void* freed_by_fork = nullptr;
[[gnu::section(".preinit_array"), gnu::used]] void (*const register_first)() = [] {
  pthread_atfork([] { free(std::exchange(freed_by_fork, nullptr)); }, nullptr, nullptr);
};

class Preload : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(preload_start(), nullptr) << "this program is run under LD_PRELOAD"; }
  void start(std::size_t bytes = 16 * MiB) { ASSERT_EQ(start_arena(arena_, bytes, threshold), 0); }
  std::uint64_t used() const { return preload_statistics().used_bytes; }

  LockedRange arena_;
};

TEST_F(Preload, NothingBeforeTheStart) {
  void* p = aligned(4096, MiB);
  ASSERT_NE(p, nullptr);
  std::memset(p, 1, MiB);
  const auto stats = preload_statistics();
  EXPECT_EQ(stats.arena_bytes, 0u);
  EXPECT_EQ(stats.allocated + stats.refused, 0u);
  start();
  EXPECT_FALSE(arena_.holds(p));
  p = realloc(p, 2 * MiB);
  EXPECT_EQ(static_cast<char*>(p)[MiB - 1], 1) << "a block from before is still the next allocator's";
  EXPECT_FALSE(arena_.holds(p));
  free(p);
}

TEST_F(Preload, StartChecksItsArguments) {
  EXPECT_EQ(start_arena(arena_, 0, threshold), -EINVAL);
  EXPECT_EQ(start_arena(arena_, (std::size_t{1} << 40) + 1, threshold), -EINVAL);
  EXPECT_EQ(start_arena(arena_, MiB, 0), -EINVAL);
  EXPECT_EQ(preload_start()(MiB, threshold, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(arena_.calls, 0u);
}

TEST_F(Preload, StartThatIsRefusedCanBeTriedAgain) {
  arena_.answer = -EPERM;
  EXPECT_EQ(start_arena(arena_, 3 * MiB, threshold), -EPERM);
  EXPECT_FALSE(arena_.holds(aligned(4096, MiB)));
  EXPECT_EQ(preload_statistics().arena_bytes, 0u);
  EXPECT_NE(msync(arena_.start, 4096, MS_ASYNC), 0) << "unmapped";
  arena_.answer = 0;
  EXPECT_EQ(start_arena(arena_, 3 * MiB, threshold), 0);
  EXPECT_EQ(arena_.bytes, 4 * MiB) << "whole huge pages";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena_.start) % (2 * MiB), 0u);
  EXPECT_TRUE(arena_.holds(aligned(4096, MiB)));
}

TEST_F(Preload, LaterStartsLockTheSameArenaAgain) {
  start();
  LockedRange again;
  EXPECT_EQ(start_arena(again, 64 * MiB, 1), 0);
  EXPECT_EQ(again.start, arena_.start);
  EXPECT_EQ(again.bytes, arena_.bytes);
  EXPECT_FALSE(arena_.holds(aligned(64, threshold - 1))) << "the first threshold holds";
  again.answer = -EIO;
  EXPECT_EQ(start_arena(again, MiB, 1), -EIO);
  EXPECT_TRUE(arena_.holds(aligned(64, threshold))) << "a device that refuses does not close the arena";
}

TEST_F(Preload, ThresholdDividesTheOneFunctionThatIsOurs) {
  start();
  for (const std::size_t alignment : {8, 16, 64, 4096}) {
    EXPECT_FALSE(arena_.holds(aligned(alignment, threshold - 1)));
    EXPECT_TRUE(arena_.holds(aligned(alignment, threshold)));
    EXPECT_FALSE(arena_.holds(aligned_alloc(alignment, MiB)));
    EXPECT_FALSE(arena_.holds(memalign(alignment, MiB)));
  }
  EXPECT_FALSE(arena_.holds(malloc(MiB)));
  EXPECT_FALSE(arena_.holds(calloc(1, MiB)));
  EXPECT_FALSE(arena_.holds(operator new(MiB)));
  EXPECT_EQ(preload_statistics().allocated, 4u);
}

TEST_F(Preload, EveryAlignmentIsKept) {
  start();
  for (std::size_t alignment = sizeof(void*); alignment <= 4 * MiB; alignment *= 2) {
    void* first = aligned(alignment, 100 * KiB);
    void* second = aligned(alignment, 100 * KiB);
    for (void* p : {first, second}) {
      ASSERT_TRUE(arena_.holds(p)) << alignment;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
      std::memset(p, 0xaa, 100 * KiB);
      free(p);
    }
  }
  operator delete(operator new(MiB, std::align_val_t(4096)), std::align_val_t(4096));
  EXPECT_EQ(used(), 0u);
  void* p = nullptr;
  for (const std::size_t wrong : {0, 1, 4, 3, 24, 4095})
    EXPECT_EQ(posix_memalign(&p, wrong, MiB), EINVAL) << wrong;
}

TEST_F(Preload, ReallocKeepsBytesBothWays) {
  start();
  const auto content = Random(1).bytes(MiB);
  const auto same = [&](const void* p, std::size_t bytes) {
    return std::memcmp(p, content.data(), bytes) == 0;
  };
  void* p = aligned(4096, 64 * KiB);
  std::memcpy(p, content.data(), 64 * KiB);
  p = realloc(p, 256 * KiB);
  EXPECT_TRUE(arena_.holds(p) && same(p, 64 * KiB)) << "grown in the arena";
  std::memcpy(p, content.data(), 256 * KiB);
  void* before = p;
  p = realloc(p, 130 * KiB);
  EXPECT_EQ(p, before) << "more than half of it stays where it is";
  EXPECT_EQ(used(), 256 * KiB);
  p = realloc(p, 1000);
  EXPECT_TRUE(!arena_.holds(p) && same(p, 1000)) << "too small for the arena";
  EXPECT_EQ(used(), 0u);
  p = realloc(p, MiB);
  EXPECT_TRUE(!arena_.holds(p) && same(p, 1000)) << "what is the heap's stays the heap's";
  free(p);

  p = aligned(4096, 64 * KiB);
  std::memcpy(p, content.data(), 64 * KiB);
  p = reallocarray(p, 3, 32 * MiB);
  EXPECT_TRUE(p != nullptr && !arena_.holds(p) && same(p, 64 * KiB)) << "too large for the arena";
  free(p);
  EXPECT_EQ(realloc(opaque(aligned(4096, 64 * KiB)), 0), nullptr);
  EXPECT_EQ(used(), 0u);

  p = aligned(4096, 64 * KiB);
  errno = 0;
  EXPECT_EQ(realloc(opaque(p), SIZE_MAX / 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(malloc_usable_size(p), 64 * KiB) << "still there";
  free(p);
  free(realloc(nullptr, 10));
}

TEST_F(Preload, ReallocToLessNeedsNoMemory) {
  EXPECT_EQ(in_child([&] {
              if (start_arena(arena_, 64 * MiB, threshold) != 0) return 1;
              void* p = aligned(4096, 64 * MiB);
              const rlimit none{};
              return setrlimit(RLIMIT_AS, &none) == 0 && realloc(opaque(p), 16 * MiB) == p ? 0 : 2;
            }),
            0);
}

TEST_F(Preload, FullArenaFallsBackAndRecovers) {
  start(4 * MiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(aligned(4096, 128 * KiB));
    ASSERT_NE(blocks.back(), nullptr);
    EXPECT_EQ(arena_.holds(blocks.back()), i < 32) << i;
    std::memset(blocks.back(), i, 128 * KiB);
  }
  EXPECT_EQ(preload_statistics().refused, 8u);
  EXPECT_EQ(preload_statistics().peak_bytes, 4 * MiB);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(static_cast<char*>(blocks[static_cast<std::size_t>(i)])[128 * KiB - 1], i);
    free(blocks[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(used(), 0u);
  EXPECT_TRUE(arena_.holds(aligned(4096, 4 * MiB))) << "one extent again";
}

TEST_F(Preload, DoubleFreeIsLeftToTheNextAllocator) {
  const auto free_twice = [&] {
    start();
    void* p = aligned(4096, MiB);
    free(opaque(p));
    free(opaque(p));
  };
  EXPECT_DEATH(free_twice(), "");
  EXPECT_DEATH((start(), free(opaque(arena_.start + 12345))), "");
}

/// A block that says what it is, once a KiB and at its end.
struct Marked {
  std::uint8_t* data = nullptr;
  std::size_t bytes = 0;
  std::uint8_t mark = 0;

  void lay() const {
    for (std::size_t i = 0; i < bytes; i += 1024) data[i] = mark;
    data[bytes - 1] = mark;
  }
  /// Of the bytes before `end`.
  bool intact(std::size_t end) const {
    for (std::size_t i = 0; i < end; i += 1024)
      if (data[i] != mark) return false;
    return end < bytes || data[bytes - 1] == mark;
  }
};

/// Blocks that any thread may take from any other.
class Shared {
 public:
  Marked take(Random& random) {
    std::lock_guard lock(mutex_);
    if (blocks_.empty() || (blocks_.size() < 300 && random.below(2) == 0)) return {};
    std::swap(blocks_[random.below(static_cast<unsigned>(blocks_.size()))], blocks_.back());
    const Marked block = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  void put(const Marked& block) {
    std::lock_guard lock(mutex_);
    blocks_.push_back(block);
  }
  const std::vector<Marked>& all() const { return blocks_; }

 private:
  std::mutex mutex_;
  std::vector<Marked> blocks_;
};

void* any_block(Random& random, std::size_t bytes) {
  const std::size_t alignment = std::size_t{8} << random.below(12);
  const unsigned which = random.below(5);
  if (which == 0) return malloc(bytes);
  if (which == 1) return memalign(alignment, bytes);
  if (which == 2) return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return aligned(alignment, bytes);
}

/// Random calls; false if a block was not what it said.
bool torture(Shared& shared, std::uint64_t seed) {
  Random random(seed);
  for (int step = 0; step < 20'000; ++step) {
    // Half of the steps come after the arena is there, however late its thread runs.
    while (step == 10'000 && preload_statistics().arena_bytes == 0) std::this_thread::yield();
    Marked block = shared.take(random);
    if (block.data != nullptr && !block.intact(block.bytes)) return false;
    if (block.data != nullptr && random.below(3) != 0) {
      free(block.data);
      continue;
    }
    const std::size_t bytes = 1 + random.below(1U << (4 + random.below(17)));
    const bool is_new = block.data == nullptr;
    block.data = static_cast<std::uint8_t*>(is_new ? any_block(random, bytes) : realloc(block.data, bytes));
    if (block.data == nullptr || malloc_usable_size(block.data) < bytes) return false;
    if (!is_new && !block.intact(std::min(bytes, block.bytes - 1))) return false;
    block.bytes = bytes;
    block.mark = static_cast<std::uint8_t>(random.next());
    block.lay();
    shared.put(block);
  }
  return true;
}

TEST_F(Preload, TortureByManyThreads) {
  Shared shared;
  std::atomic<bool> right{true};
  auto threads = threads_of(8, [&](unsigned t) {
    if (!torture(shared, 100 + t)) right = false;
  });
  start(8 * MiB);  // while they are at it; smaller than what they hold, so that it is full now and then
  threads.clear();
  for (const Marked& block : shared.all()) {
    EXPECT_TRUE(block.intact(block.bytes));
    free(block.data);
  }
  EXPECT_TRUE(right);
  const auto stats = preload_statistics();
  EXPECT_EQ(stats.used_bytes, 0u);
  EXPECT_EQ(stats.allocated, stats.released);
  EXPECT_GT(stats.allocated, 1000u);
  EXPECT_GT(stats.refused, 0u);
}

TEST_F(Preload, ChildHasTheNextAllocatorOnly) {
  start();
  void* parents = aligned(4096, MiB);
  std::memset(parents, 0x5a, MiB);
  EXPECT_EQ(in_child([&] {
              if (arena_.holds(aligned(4096, MiB))) return 1;
              errno = 0;
              if (realloc(parents, 2 * MiB) != nullptr || errno != ENOMEM) return 2;
              if (malloc_usable_size(parents) == 0) return 3;
              free(parents);
              // No mapping may come to lie where the arena was, or free would take its blocks for the
              // parent's.
              for (int i = 0; i < 64; ++i)
                if (arena_.holds(mmap(nullptr, MiB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) return 4;
              LockedRange own;
              if (start_arena(own, MiB, threshold) != -ENOTSUP || own.calls != 0) return 5;
              return in_child([&] { return arena_.holds(aligned(4096, MiB)) ? 6 : 0; });
            }),
            0);
  EXPECT_EQ(static_cast<char*>(parents)[MiB - 1], 0x5a);
  EXPECT_EQ(malloc_usable_size(parents), MiB) << "not freed here";
  EXPECT_EQ(in_child([&] { return static_cast<volatile char*>(parents)[0]; }), -SIGSEGV)
      << "the child must not share pages that a device writes";
}

TEST_F(Preload, ChildOfAnEarlierForkStartsItsOwnArena) {
  EXPECT_EQ(in_child([&] {
              if (start_arena(arena_, 4 * MiB, threshold) != 0) return 1;
              return arena_.holds(aligned(4096, MiB)) ? 0 : 2;
            }),
            0);
}

TEST_F(Preload, HandlersOfForkMayFree) {
  start();
  freed_by_fork = aligned(4096, MiB);
  EXPECT_EQ(in_child([&] { return arena_.holds(aligned(4096, MiB)) ? 1 : 0; }), 0);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Preload, ChildWithoutHandlersHasTheNextAllocatorOnly) {
  start();
  void* parents = aligned(4096, MiB);
  const auto allocate = [&] {
    void* p = aligned(4096, MiB);
    std::memset(p, 1, MiB);
    free(parents);
    return arena_.holds(p) ? 1 : 0;
  };
  EXPECT_EQ(in_child(allocate, _Fork), 0);
}

TEST_F(Preload, ChildOfBusyThreadsFreesBlocks) {
  start(8 * MiB);
  std::vector<void*> parents;
  for (int i = 0; i < 32; ++i)
    parents.push_back(aligned(4096, 32 * KiB + static_cast<std::size_t>(i % 5) * 4 * KiB));
  std::atomic<bool> stop{false};
  const auto threads = threads_of(3, [&](unsigned t) {  // the books are at work nearly all the time
    Random random(t);
    while (!stop) free(aligned(4096, (32 + random.below(64)) * KiB));
  });
  for (int i = 0; i < 1500 && !HasFailure(); ++i) {
    EXPECT_EQ(in_child([&] {
                for (void* p : parents) {
                  if (malloc_usable_size(p) == 0) return 1;
                  free(p);
                }
                return 0;
              }),
              0)
        << i;
  }
  stop = true;
}

TEST_F(Preload, ExecBeginsAnew) {
  start();
  const auto again = [] {
    execl("/proc/self/exe", "pinned_test", "--gtest_filter=Preload.FullArenaFallsBackAndRecovers", nullptr);
    return 1;
  };
  EXPECT_EQ(in_child(again), 0);
}

}  // namespace
}  // namespace ec::test
