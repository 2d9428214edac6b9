// libec_cuda_pinned.so: the allocator's functions that the arena answers, in front of the next allocator's.
//
// The choice of functions: Ceph takes every buffer of two pages or more from posix_memalign, whatever
// alignment it needs, and gives it back with free. Memory from other functions holds no chunks, so those
// functions are left alone and cost nothing; their memory still comes through free and realloc here.
// operator delete of the C library's kind ends in free too; tcmalloc's does not, and never sees a block of
// ours, because tcmalloc's operator new made the memory that it deletes.
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ec_cuda_pinned.h"
#include "plugin/pinned/arena.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace ec::pinned {
namespace {

constinit Arena arena;

[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] { arena.become_child(); });

void look_all_up();

/// The function of this name in the libraries behind this one: tcmalloc's, jemalloc's or the C library's.
/// Usable before any constructor has run.
template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  /// Null if there is none, and maybe for a call from within look_all_up().
  Function* get() {
    if (function_.load(std::memory_order_relaxed) == nullptr) look_all_up();
    return function_.load(std::memory_order_relaxed);
  }
  void look_up() {
    function_.store(reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_)), std::memory_order_relaxed);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

constinit Next<int(void**, std::size_t, std::size_t)> next_posix_memalign("posix_memalign");
constinit Next<void(void*)> next_free("free");
constinit Next<void*(void*, std::size_t)> next_realloc("realloc");
constinit Next<std::size_t(void*)> next_malloc_usable_size("malloc_usable_size");

/// The first call of a process looks all functions up, free first: the caller may be dlerror(), which calls
/// realloc and goes on to use memory that dlsym() frees. Until free is known, nothing is freed.
void look_all_up() {
  static thread_local bool looking __attribute__((tls_model("initial-exec"))) = false;
  if (looking) return;
  looking = true;
  [](auto&... next) { (next.look_up(), ...); }(next_free, next_posix_memalign, next_realloc,
                                               next_malloc_usable_size);
  looking = false;
}

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

/// realloc of a block of the arena.
void* move_block(void* p, std::size_t held, std::size_t bytes) {
  if (arena.is_inherited()) return out_of_memory();  // its bytes are the parent's
  if (bytes <= held && bytes > held / 2) return p;
  void* moved = arena.allocate(PageAllocator::page_bytes, bytes);
  if (moved == nullptr) moved = std::malloc(bytes);
  if (moved == nullptr) return bytes <= held ? p : nullptr;
  std::memcpy(moved, p, std::min(held, bytes));
  arena.release(p);
  return moved;
}

}  // namespace
}  // namespace ec::pinned

using namespace ec::pinned;  // NOLINT: the rest of this file is the C functions below

EXPORTED int ec_cuda_pinned_start(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock,
                                  void* context) {
  return arena.start(bytes, threshold, lock, context);
}

EXPORTED void ec_cuda_pinned_statistics(ec_cuda_pinned_stats* stats) { *stats = arena.statistics(); }

EXPORTED int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  if (std::has_single_bit(alignment) && alignment >= sizeof(void*))
    if (void* p = arena.allocate(alignment, bytes)) {
      *out = p;
      return 0;
    }
  auto* next = next_posix_memalign.get();
  return next == nullptr ? ENOMEM : next(out, alignment, bytes);
}

// An address in the arena and in no block of it, freed twice for example, is left to the next allocator's own
// complaint.
EXPORTED void free(void* p) noexcept {
  if (arena.owns(p) && arena.release(p)) return;
  if (auto* next = next_free.get()) next(p);
}

EXPORTED void* realloc(void* p, std::size_t bytes) noexcept {
  if (arena.owns(p))
    if (const std::size_t held = arena.size_of(p)) {
      if (bytes != 0) return move_block(p, held, bytes);
      arena.release(p);
      return nullptr;
    }
  auto* next = next_realloc.get();
  return next == nullptr ? out_of_memory() : next(p, bytes);
}

EXPORTED std::size_t malloc_usable_size(void* p) noexcept {
  if (arena.owns(p))
    if (const std::size_t held = arena.size_of(p)) return held;
  auto* next = next_malloc_usable_size.get();
  return next == nullptr ? 0 : next(p);
}
