// What an allocator owes its program, with libec_cuda_pinned.so in front of it and no driver anywhere: run
// under LD_PRELOAD, each test in a process of its own.
#include <gtest/gtest.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/random_bytes.hpp"
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

class Preload : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(preload_start(), nullptr) << "this program is run under LD_PRELOAD"; }
  void start(std::size_t bytes = 16 * MiB) { ASSERT_EQ(start_arena(arena_, bytes, threshold), 0); }
  std::uint64_t used() const { return preload_statistics().used_bytes; }

  LockedRange arena_;
};

/// The exit status of `child` run in a fork; -signal if one ended it.
template <class Child>
int in_child(Child&& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    _exit(child());
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return 255;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

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

TEST_F(Preload, ThresholdDividesTheFunctionsThatAreOurs) {
  start();
  for (const std::size_t alignment : {8, 16, 64, 4096}) {
    EXPECT_FALSE(arena_.holds(aligned(alignment, threshold - 1)));
    EXPECT_TRUE(arena_.holds(aligned(alignment, threshold)));
    EXPECT_FALSE(arena_.holds(aligned_alloc(alignment, threshold - alignment)));
    EXPECT_TRUE(arena_.holds(aligned_alloc(alignment, threshold)));
    EXPECT_FALSE(arena_.holds(memalign(alignment, threshold - 1)));
    EXPECT_TRUE(arena_.holds(memalign(alignment, threshold)));
  }
  EXPECT_FALSE(arena_.holds(malloc(MiB)));
  EXPECT_FALSE(arena_.holds(calloc(1, MiB)));
  EXPECT_FALSE(arena_.holds(operator new(MiB)));
  EXPECT_EQ(preload_statistics().allocated, 12u);
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
  EXPECT_EQ(used(), 0u);
  void* p = nullptr;
  for (const std::size_t wrong : {0, 1, 4, 3, 24, 4095})
    EXPECT_EQ(posix_memalign(&p, wrong, MiB), EINVAL) << wrong;
  EXPECT_NE(memalign(24, MiB), nullptr) << "the C library rounds it up";
}

TEST_F(Preload, UsableSizeIsWholePagesAndUsable) {
  start();
  auto* p = static_cast<char*>(aligned(64, threshold + 1));
  ASSERT_EQ(malloc_usable_size(p), threshold + 4096);
  std::memset(p, 7, malloc_usable_size(p));
  free(p);
  void* small = malloc(100);
  EXPECT_GE(malloc_usable_size(small), 100u);
  EXPECT_EQ(malloc_usable_size(nullptr), 0u);
  free(small);
  free(nullptr);
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
  EXPECT_EQ(p, before) << "shrunk where it is";
  EXPECT_EQ(used(), 132 * KiB);
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

TEST_F(Preload, AlignedNewAndDelete) {
  start();
  void* p = operator new(MiB, std::align_val_t(4096));
  std::memset(p, 1, MiB);
  operator delete(p, std::align_val_t(4096));
  EXPECT_EQ(used(), 0u);
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
  start();
  void* p = aligned(4096, MiB);
  free(opaque(p));
  EXPECT_DEATH(free(opaque(p)), "");
  EXPECT_DEATH(free(opaque(arena_.start + 12345)), "");
}

/// A block that says what it is, at its ends and once a page.
struct Marked {
  std::uint8_t* data = nullptr;
  std::size_t bytes = 0;
  std::uint8_t mark = 0;

  void lay() const {
    for (std::size_t i = 0; i < bytes; i += 1024) data[i] = mark;
    data[bytes - 1] = mark;
  }
  bool intact() const { return data[bytes - 1] == mark && intact_before(bytes); }
  bool intact_before(std::size_t end) const {
    for (std::size_t i = 0; i < end; i += 1024)
      if (data[i] != mark) return false;
    return true;
  }
};

/// Random calls on blocks that any thread may take from any other.
class Torture {
 public:
  void work(std::uint64_t seed, int steps) {
    Random random(seed);
    for (int i = 0; i < steps && !broken_; ++i) {
      Marked block = take(random);
      if (block.data == nullptr) {
        block.bytes = 1 + random.below(1U << (4 + random.below(17)));
        block.data = make(random, block.bytes);
      } else if (!block.intact()) {
        broken_ = true;
      } else if (random.below(3) == 0) {
        const std::size_t bytes = 1 + random.below(1U << (4 + random.below(17)));
        block.data = static_cast<std::uint8_t*>(realloc(block.data, bytes));
        if (block.data == nullptr || !block.intact_before(std::min(bytes, block.bytes - 1))) broken_ = true;
        block.bytes = bytes;
      } else {
        free(block.data);
        continue;
      }
      if (block.data == nullptr || malloc_usable_size(block.data) < block.bytes) broken_ = true;
      if (broken_) break;
      block.mark = static_cast<std::uint8_t>(random.next());
      block.lay();
      put(block);
    }
  }
  void finish() {
    for (const Marked& b : shared_) {
      if (!b.intact()) broken_ = true;
      free(b.data);
    }
    shared_.clear();
  }
  bool broken() const { return broken_; }

 private:
  static std::uint8_t* make(Random& random, std::size_t bytes) {
    const std::size_t alignment = std::size_t{8} << random.below(12);
    switch (random.below(5)) {
      case 0:
        return static_cast<std::uint8_t*>(malloc(bytes));
      case 1:
        return static_cast<std::uint8_t*>(memalign(alignment, bytes));
      case 2:
        return static_cast<std::uint8_t*>(
            aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
      default:
        return static_cast<std::uint8_t*>(aligned(alignment, bytes));
    }
  }
  Marked take(Random& random) {
    std::lock_guard lock(mutex_);
    if (shared_.empty() || (shared_.size() < 300 && random.below(2) == 0)) return {};
    std::swap(shared_[random.below(static_cast<unsigned>(shared_.size()))], shared_.back());
    const Marked block = shared_.back();
    shared_.pop_back();
    return block;
  }
  void put(const Marked& block) {
    std::lock_guard lock(mutex_);
    shared_.push_back(block);
  }

  std::mutex mutex_;
  std::vector<Marked> shared_;
  std::atomic<bool> broken_{false};
};

TEST_F(Preload, TortureByManyThreads) {
  Torture torture;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) threads.emplace_back([&, t] { torture.work(100 + t, 20'000); });
  start(8 * MiB);  // while they are at it; smaller than what they hold, so that it is full now and then
  for (auto& t : threads) t.join();
  EXPECT_FALSE(torture.broken());
  torture.finish();
  EXPECT_FALSE(torture.broken());
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
              if (malloc_usable_size(parents) != MiB) return 3;
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

TEST_F(Preload, ForkWhileThreadsAllocate) {
  start(8 * MiB);
  std::atomic<bool> stop{false};
  Torture torture;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t round = 0; !stop; ++round) torture.work(1000 * t + round, 200);
    });
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    void* parents = aligned(4096, 64 * KiB);
    EXPECT_EQ(in_child([&] {
                free(parents);
                Torture own;
                own.work(5, 300);
                own.finish();
                return own.broken() ? 1 : 0;
              }),
              0)
        << i;
    free(parents);
  }
  stop = true;
  for (auto& t : threads) t.join();
  torture.finish();
  EXPECT_FALSE(torture.broken());
  EXPECT_EQ(used(), 0u);
}

TEST_F(Preload, ForkFindsTheBooksWhole) {
  start(8 * MiB);
  std::vector<void*> parents;
  for (int i = 0; i < 32; ++i)
    parents.push_back(aligned(4096, 32 * KiB + static_cast<std::size_t>(i % 5) * 4 * KiB));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)  // the books are at work nearly all the time
    threads.emplace_back([&, t] {
      Random random(t);
      while (!stop) free(aligned(4096, (32 + random.below(64)) * KiB));
    });
  for (int i = 0; i < 1500 && !HasFailure(); ++i) {
    EXPECT_EQ(in_child([&] {
                for (void* p : parents) {
                  if (malloc_usable_size(p) < 32 * KiB) return 1;
                  free(p);
                }
                return 0;
              }),
              0)
        << i;
  }
  stop = true;
  for (auto& t : threads) t.join();
}

/// This program again with one of its tests; its exit status.
int run_self(const char* test, const char* variable, std::string* errors) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 255;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    if (variable != nullptr) setenv(variable, "1", 1);
    execl("/proc/self/exe", "pinned_test", test, "--gtest_brief=1", nullptr);
    _exit(254);
  }
  close(pipe_ends[1]);
  char text[4096];
  for (ssize_t n = 0; (n = read(pipe_ends[0], text, sizeof text)) > 0;)
    errors->append(text, static_cast<std::size_t>(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(Preload, ExecBeginsAnew) {
  start();
  std::string errors;
  EXPECT_EQ(run_self("--gtest_filter=Preload.FullArenaFallsBackAndRecovers", nullptr, &errors), 0);
  EXPECT_EQ(errors.find("ec_cuda_pinned"), std::string::npos) << "it says nothing unless asked: " << errors;
}

TEST_F(Preload, ReportsWhenAsked) {
  if (getenv("EC_CUDA_PINNED_REPORT") != nullptr) {  // the run below
    start(4 * MiB);
    EXPECT_TRUE(arena_.holds(aligned(4096, MiB)));
    EXPECT_EQ(raise(SIGUSR2), 0);
    return;
  }
  std::string errors;
  EXPECT_EQ(run_self("--gtest_filter=Preload.ReportsWhenAsked", "EC_CUDA_PINNED_REPORT", &errors), 0);
  const std::string numbers =
      "arena 4194304, used 1048576, peak 1048576 bytes; 1 allocated, 0 released, 0 refused\n";
  EXPECT_NE(errors.find(", asked: " + numbers), std::string::npos) << errors;
  EXPECT_NE(errors.find(", at exit: " + numbers), std::string::npos) << errors;
}

TEST_F(Preload, PairsByThreadsInTheirTime) {
  start(256 * MiB);
  for (const unsigned count : {1, 4}) {
    constexpr int rounds = 200'000;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t)
      threads.emplace_back([] {
        void* held[16] = {};
        for (int i = 0; i < rounds; ++i) {
          free(held[i % 16]);
          held[i % 16] = aligned(4096, (64 + 4 * static_cast<std::size_t>(i % 7)) * KiB);
        }
        for (void* p : held) free(p);
      });
    for (auto& t : threads) t.join();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    std::printf("%u threads: %.0f ns of the clock for a pair of allocate and free\n", count,
                took.count() / rounds / count);
  }
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(preload_statistics().refused, 0u);
}

}  // namespace
}  // namespace ec::test
