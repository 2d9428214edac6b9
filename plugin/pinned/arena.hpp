// The one arena of this process: page-locked memory, handed out from its start on and never in a child of
// fork().
//
// Rules of the preload:
// - Before start() and in a child nothing is handed out; every request is the next allocator's. One load
//   decides this.
// - No lock is held while the next allocator, the driver or the kernel's memory management is called, but for
//   the lock that only start() takes.
// - The arena is never unmapped once it is open: an address in the arena stays in it for good.
// - A child does not have the arena's pages (MADV_DONTFORK). Otherwise the first write of either process to a
//   locked page would give that process a copy, and the device would go on with the other process's page. In
//   the child the addresses stay reserved, so that no other memory is found there; freeing a block of the
//   parent's does nothing, touching one ends the child.
// - No lock is held across fork(): a handler of another library may free a block. A child may find the lock
//   taken and the books half written, so it uses neither.
#pragma once

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include "ec_cuda_pinned.h"
#include "plugin/pinned/page_allocator.hpp"

namespace ec::pinned {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;
inline constexpr std::size_t largest_arena = std::size_t{1} << 40;

struct Mutex {
  void lock() { pthread_mutex_lock(&mutex); }
  void unlock() { pthread_mutex_unlock(&mutex); }
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
};

inline std::uint8_t* map(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(p);
}

/// `bytes` aligned to a huge page, of huge pages where the system has them, absent in children; null on
/// failure.
inline std::uint8_t* map_arena(std::size_t bytes) {
  std::uint8_t* wide = map(bytes + huge_page);
  if (wide == nullptr) return nullptr;
  const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(wide) % huge_page) % huge_page;
  std::uint8_t* start = wide + before;
  if (before != 0) munmap(wide, before);
  munmap(start + bytes, huge_page - before);
  madvise(start, bytes, MADV_HUGEPAGE);
  if (madvise(start, bytes, MADV_DONTFORK) == 0) return start;
  munmap(start, bytes);
  return nullptr;
}

/// The whole arena is usable before any constructor has run. Thread safe.
class Arena {
 public:
  constexpr Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Reserves the arena's addresses in a child, by a handler of fork() before other memory can take them. A
  /// child without handlers does it at its first request for a block.
  void become_child() {
    auto* const opener = opener_.load(std::memory_order_relaxed);
    if (opener == nullptr) return;
    opener->store(false, std::memory_order_relaxed);  // Linux before 4.14 has not
    threshold_.store(never, std::memory_order_relaxed);
    // Never replaces an existing mapping; if it fails, the best course is to go on.
    if (const std::size_t length = length_.load(std::memory_order_relaxed))
      (void)mmap(reinterpret_cast<void*>(start_.load(std::memory_order_relaxed)), length, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  }

  /// As ec_cuda_pinned_start().
  int start(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock, void* context) {
    if (bytes == 0 || bytes > largest_arena || threshold == 0 || lock == nullptr) return -EINVAL;
    if (is_inherited()) return -ENOTSUP;
    const std::lock_guard locked(start_mutex_);
    if (const std::size_t length = length_.load(std::memory_order_acquire))
      return lock(reinterpret_cast<void*>(start_.load(std::memory_order_relaxed)), length, context);
    // From here on: a child that forks during the start has this thread's lock and not this thread.
    if (!mark()) return -ENOMEM;
    return open((bytes + huge_page - 1) / huge_page * huge_page, threshold, lock, context);
  }

  /// Whether p lies in the arena, in the parent of this process included.
  bool owns(const void* p) const {
    const std::size_t length = length_.load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(p) - start_.load(std::memory_order_relaxed) < length;
  }
  /// Whether this process is a child of the one that opened the arena, and has its addresses only.
  bool is_inherited() const {
    const auto* const opener = opener_.load(std::memory_order_acquire);
    return opener != nullptr && !opener->load(std::memory_order_relaxed);
  }

  /// A block aligned to `alignment`, a power of two, and at least to a page. Null if `bytes` is below the
  /// threshold or there is no room.
  void* allocate(std::size_t alignment, std::size_t bytes) {
    return bytes < threshold_.load(std::memory_order_relaxed) ? nullptr : allocate_large(alignment, bytes);
  }
  /// Bytes of the block at p, which owns(); 0 if no block starts there. In a child the bytes of one page.
  std::size_t size_of(const void* p) {
    if (is_inherited()) return PageAllocator::page_bytes;
    const std::lock_guard locked(mutex_);
    return allocator_->size_of(p);
  }
  /// Frees the block at p, which owns(); false if no block starts there. Does nothing in a child.
  bool release(void* p) {
    if (is_inherited()) return true;
    const std::lock_guard locked(mutex_);
    const std::size_t bytes = allocator_->release(p);
    if (bytes == 0) return false;
    ++released_;
    used_ -= bytes;
    return true;
  }

  /// Takes no lock.
  ec_cuda_pinned_stats statistics() const {
    constexpr auto relaxed = std::memory_order_relaxed;
    return {length_.load(relaxed),    used_.load(relaxed),     peak_.load(relaxed),
            allocated_.load(relaxed), released_.load(relaxed), refused_.load(relaxed)};
  }

 private:
  static constexpr std::size_t never = SIZE_MAX;

  void* allocate_large(std::size_t alignment, std::size_t bytes) {
    if (is_inherited()) become_child();
    if (threshold_.load(std::memory_order_relaxed) == never) return nullptr;
    const std::lock_guard locked(mutex_);
    void* p = allocator_->allocate(alignment, bytes);
    if (p == nullptr) {
      ++refused_;
      return nullptr;
    }
    ++allocated_;
    const std::uint64_t used = used_ += allocator_->size_of(p);
    if (used > peak_.load(std::memory_order_relaxed)) peak_.store(used, std::memory_order_relaxed);
    return p;
  }

  int open(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock, void* context) {
    const std::size_t book_bytes = sizeof(PageAllocator) + PageAllocator::book_bytes(bytes);
    std::uint8_t* start = map_arena(bytes);
    std::uint8_t* books = map(book_bytes);
    if (const int error = start == nullptr || books == nullptr ? -ENOMEM : lock(start, bytes, context)) {
      if (start != nullptr) munmap(start, bytes);
      if (books != nullptr) munmap(books, book_bytes);
      return error;
    }
    const std::lock_guard locked(mutex_);
    allocator_ = new (books) PageAllocator(start, bytes, books + sizeof(PageAllocator));
    start_.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
    length_.store(bytes, std::memory_order_release);
    threshold_.store(std::min(threshold, never - 1), std::memory_order_release);
    return 0;
  }

  /// Marks this process as the one that opens the arena, by a page that the system clears in every child.
  bool mark() {
    if (opener_.load(std::memory_order_relaxed) != nullptr) return true;
    std::uint8_t* page = map(PageAllocator::page_bytes);
    if (page == nullptr) return false;
    madvise(page, PageAllocator::page_bytes, MADV_WIPEONFORK);
    opener_.store(new (page) std::atomic<bool>(true), std::memory_order_release);
    return true;
  }

  std::atomic<std::uintptr_t> start_{0};
  std::atomic<std::size_t> length_{0};
  std::atomic<std::size_t> threshold_{never};
  std::atomic<std::atomic<bool>*> opener_{nullptr};  // false in every child
  Mutex start_mutex_;
  Mutex mutex_;  // for the members below
  PageAllocator* allocator_ = nullptr;
  std::atomic<std::uint64_t> used_{0}, peak_{0}, allocated_{0}, released_{0}, refused_{0};
};

}  // namespace ec::pinned
