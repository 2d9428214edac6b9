// Copies shared by threads: whole, never late, and with threads that a daemon can live with.
#include "kernels/cuda/submit/copy_helpers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using kernels::cuda::Copy;
using kernels::cuda::CopyHelpers;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t piece = CopyHelpers::piece_bytes;

/// So many copies of one length in memory of its own.
class Copies {
 public:
  Copies(std::size_t count, std::size_t bytes, std::uint64_t seed = 1)
      : bytes_(bytes), from_(Random(seed).bytes(count * bytes)), to_(count * bytes, 0xee) {
    // Backwards, so that one that runs into the next shows.
    for (std::size_t i = 0; i < count; ++i)
      list_.push_back({to_.data() + (count - 1 - i) * bytes, from_.data() + (count - 1 - i) * bytes});
  }
  void do_with(CopyHelpers& helpers) {
    to_.assign(to_.size(), 0xee);
    helpers.copy(list_, bytes_);
  }
  bool are_done() const { return to_ == from_; }

 private:
  std::size_t bytes_;
  std::vector<std::uint8_t> from_, to_;
  std::vector<Copy> list_;
};

/// The /proc directories of the threads of this process that are helpers. A thread that has ended may linger.
std::vector<std::filesystem::path> helper_threads() {
  std::vector<std::filesystem::path> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "ec_cuda_copy") found.push_back(task.path());
  }
  return found;
}

TEST(CopyHelpersTest, CopyEveryByte) {
  for (const unsigned threads : {0u, 1u, 2u, 5u}) {
    CopyHelpers helpers(threads);
    for (const auto& [count, bytes] : {std::pair<std::size_t, std::size_t>{0, 100},
                                       {3, 0},
                                       {1, 1},
                                       {1, mib - 1},
                                       {1, mib},
                                       {1, mib + 1},
                                       {2, 3 * piece + 1},
                                       {7, 200'003},
                                       {40, 104'857},
                                       {255, 16'448}}) {
      Copies copies(count, bytes);
      copies.do_with(helpers);
      EXPECT_TRUE(copies.are_done()) << threads << " threads, " << count << " of " << bytes;
    }
  }
}

TEST(CopyHelpersTest, CallersShareThem) {
  CopyHelpers helpers(2);
  std::atomic<unsigned> wrong{0};
  std::vector<std::jthread> callers;
  for (unsigned t = 0; t < 6; ++t)
    callers.emplace_back([&, t] {
      Copies copies(3 + t, 500'000 + t, t);
      for (unsigned i = 0; i < 20; ++i) {
        copies.do_with(helpers);
        wrong += !copies.are_done();
      }
    });
  callers.clear();
  EXPECT_EQ(wrong, 0u);
}

TEST(CopyHelpersTest, AreStartedByTheFirstLongCopyAndEnd) {
  ASSERT_TRUE(helper_threads().empty());
  {
    CopyHelpers helpers(3);
    Copies(1, mib - 1).do_with(helpers);
    EXPECT_TRUE(helper_threads().empty()) << "a short one is not worth a thread";
    Copies(1, mib).do_with(helpers);
    Copies(1, mib).do_with(helpers);
    EXPECT_EQ(helper_threads().size(), 3u);
  }
  for (unsigned tries = 0; !helper_threads().empty() && tries < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(helper_threads().empty());
}

TEST(CopyHelpersTest, TakeNoSignals) {
  CopyHelpers helpers(1);
  Copies(1, mib).do_with(helpers);
  const auto threads = helper_threads();
  ASSERT_EQ(threads.size(), 1u);
  std::string blocked;
  std::ifstream status(threads[0] / "status");
  while (blocked.rfind("SigBlk:", 0) != 0 && std::getline(status, blocked)) {
  }
  const auto mask = std::stoull(blocked.substr(7), nullptr, 16);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM})
    EXPECT_NE(mask >> (signal - 1) & 1, 0u) << signal;
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0) << "the caller's mask is as it was";
}

/// Started by a thread that is bound to one core, in a process whose first thread is not, and the other way
/// round.
TEST(CopyHelpersTest, AreNotBoundToOneCoreAsACallerIs) {
  cpu_set_t all, one, own;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "this process has one core";
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  for (const bool first_is_bound : {false, true}) {
    CopyHelpers helpers(1);
    ASSERT_EQ(sched_setaffinity(getpid(), sizeof(all), first_is_bound ? &one : &all), 0);
    std::jthread([&] {
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), first_is_bound ? &all : &one), 0);
      Copies(1, mib).do_with(helpers);
    }).join();
    ASSERT_EQ(sched_setaffinity(getpid(), sizeof(all), &all), 0);
    const auto threads = helper_threads();
    ASSERT_FALSE(threads.empty());
    ASSERT_EQ(sched_getaffinity(std::stoi(threads.back().filename()), sizeof(own), &own), 0);
    EXPECT_TRUE(CPU_EQUAL(&own, &all)) << first_is_bound;
  }
}

TEST(CopyHelpersTest, AreOneCrewForAProcess) {
  const auto one = CopyHelpers::of_process(2);
  EXPECT_EQ(one, CopyHelpers::of_process(2));
  EXPECT_NE(one, CopyHelpers::of_process(3));
}

TEST(CopyHelpersTest, AChildOfForkDoesNotWaitForThem) {
  auto helpers = std::make_unique<CopyHelpers>(2);
  Copies(4, mib).do_with(*helpers);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    helpers.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "it waited for threads that it has not";
}

/// Memory whose pages come when they are let in; who reads one before that stands still.
class SlowPages {
 public:
  explicit SlowPages(std::size_t bytes)
      : bytes_(bytes),
        pages_(static_cast<std::uint8_t*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        fault_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY))) {
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{.range = {address(), bytes_}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
    works_ =
        fault_ >= 0 && ioctl(fault_, UFFDIO_API, &api) == 0 && ioctl(fault_, UFFDIO_REGISTER, &range) == 0;
  }
  ~SlowPages() {
    if (fault_ >= 0) close(fault_);
    munmap(pages_, bytes_);
  }
  SlowPages(const SlowPages&) = delete;
  SlowPages& operator=(const SlowPages&) = delete;

  bool work() const { return works_; }
  const std::uint8_t* data() const { return pages_; }
  /// Waits until one more thread stands still.
  void wait_for_a_reader() const {
    uffd_msg message;
    while (read(fault_, &message, sizeof message) != sizeof message) {
    }
  }
  void let_in() const {
    uffdio_zeropage zero{.range = {address(), bytes_}, .mode = 0, .zeropage = 0};
    EXPECT_EQ(ioctl(fault_, UFFDIO_ZEROPAGE, &zero), 0);
  }

 private:
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(pages_); }

  std::size_t bytes_;
  std::uint8_t* pages_;
  int fault_;
  bool works_ = false;
};

TEST(CopyHelpersTest, NobodyWaitsForOneThatIsAtAnothersPiece) {
  const SlowPages slow(2 * mib);
  if (!slow.work()) GTEST_SKIP() << "no userfaultfd for this user";
  CopyHelpers helpers(1);
  std::vector<std::uint8_t> to(2 * mib, 0xee);
  std::jthread other([&] {
    const Copy copy{to.data(), slow.data()};
    helpers.copy({&copy, 1}, to.size());
  });
  // Its caller and the only helper.
  slow.wait_for_a_reader();
  slow.wait_for_a_reader();
  Copies copies(4, mib);
  copies.do_with(helpers);
  EXPECT_TRUE(copies.are_done());
  slow.let_in();
  other.join();
  EXPECT_EQ(to, std::vector<std::uint8_t>(2 * mib, 0));
}

}  // namespace
}  // namespace ec::test
