// Stands in front of the C library's allocator and locks, and of a preload for aligned memory; counts, and
// fails where it is asked to.
#include "tests/common/allocator.hpp"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>

#include "tests/common/child.hpp"

namespace {

std::atomic<std::size_t> allocations{0};
std::atomic<std::size_t> locks{0};

/// Of one thread, or of all.
struct Shortage {
  std::atomic<unsigned> first{0};  // of the allocations that fail; 0: none does
  std::atomic<bool> all{false};
  std::atomic<unsigned> made{0}, failed{0};

  void begin(unsigned nth, bool all_from_there) {
    made = failed = 0;
    all = all_from_there;
    first = nth;
  }
  bool fails() {
    if (first == 0) return false;
    const unsigned number = ++made;
    if (number != first && !(all && number > first)) return false;
    ++failed;
    return true;
  }
};
constinit thread_local Shortage of_thread;
constinit Shortage of_all_threads;
constinit thread_local unsigned spared = 0;

/// At each allocation.
bool fails() {
  ++allocations;
  if (spared != 0 || !(of_thread.fails() || of_all_threads.fails())) return false;
  errno = ENOMEM;
  return true;
}

/// The function of that name behind ours.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Looked for before the first test.
const auto next_memalign = next<int(void**, std::size_t, std::size_t)>("posix_memalign");

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

[[gnu::visibility("default")]] void* malloc(std::size_t bytes) {
  return fails() ? nullptr : __libc_malloc(bytes);
}
[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t bytes) {
  return fails() ? nullptr : __libc_calloc(count, bytes);
}
[[gnu::visibility("default")]] void* realloc(void* old, std::size_t bytes) {
  return fails() ? nullptr : __libc_realloc(old, bytes);
}
[[gnu::visibility("default")]] int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  if (fails()) return ENOMEM;
  if (next_memalign != nullptr) return next_memalign(result, alignment, bytes);
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  void* made = nullptr;
  return posix_memalign(&made, alignment < sizeof made ? sizeof made : alignment, bytes) == 0 ? made
                                                                                              : nullptr;
}
[[gnu::visibility("default")]] void* memalign(std::size_t alignment, std::size_t bytes) {
  return aligned_alloc(alignment, bytes);
}

// No static of the function: a child forked while a thread makes it would wait for that thread.
#define EC_COUNTED_LOCK(name, type)                                                \
  const auto next_##name = next<int(type*)>(#name);                                \
  [[gnu::visibility("default")]] int name(type* lock) {                            \
    ++locks;                                                                       \
    return (next_##name != nullptr ? next_##name : next<int(type*)>(#name))(lock); \
  }
EC_COUNTED_LOCK(pthread_mutex_lock, pthread_mutex_t)
EC_COUNTED_LOCK(pthread_mutex_trylock, pthread_mutex_t)
EC_COUNTED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
EC_COUNTED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
EC_COUNTED_LOCK(pthread_rwlock_tryrdlock, pthread_rwlock_t)
EC_COUNTED_LOCK(pthread_rwlock_trywrlock, pthread_rwlock_t)
}

namespace ec::test {

CallCosts costs_of(const std::function<void()>& f) {
  const CallCosts before{allocations, locks};
  f();
  return {allocations - before.allocations, locks - before.locks};
}

SystemCalls system_calls_of(const std::function<void()>& f) {
  constexpr int cannot = 77, no_child = 255;
  const int status = in_child([&] {
    // From here on the kernel kills the child at any call but these. The strict mode would let no call read a
    // clock.
    constexpr auto load = BPF_LD | BPF_W | BPF_ABS, equal = BPF_JMP | BPF_JEQ | BPF_K,
                   answer = BPF_RET | BPF_K;
    sock_filter steps[] = {BPF_STMT(load, offsetof(seccomp_data, nr)), BPF_JUMP(equal, SYS_exit, 2, 0),
                           BPF_JUMP(equal, SYS_clock_gettime, 1, 0),
                           BPF_STMT(answer, SECCOMP_RET_KILL_PROCESS), BPF_STMT(answer, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{std::size(steps), steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
      return cannot;
    f();
    return static_cast<int>(syscall(SYS_exit, 0));
  });
  if (status == cannot || status == no_child) return SystemCalls::unknown;
  return status == 0 ? SystemCalls::none : SystemCalls::some;
}

void begin_shortage(unsigned nth, bool all) { of_thread.begin(nth, all); }
void begin_shortage_of_all_threads(unsigned nth, bool all) { of_all_threads.begin(nth, all); }

unsigned end_shortage() {
  of_thread.first = of_all_threads.first = 0;
  return of_thread.failed.exchange(0) + of_all_threads.failed.exchange(0);
}

void spare_allocations(bool begin) { begin ? ++spared : --spared; }

}  // namespace ec::test
