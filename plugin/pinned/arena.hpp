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
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ec_cuda_pinned.h"
#include "plugin/pinned/page_allocator.hpp"

namespace ec::pinned {

/// The whole arena is usable before any constructor has run. Thread safe.
class Arena {
 public:
  constexpr Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Must have been called before start(), and early: handlers of fork() that were registered before ours run
  /// while our lock is held.
  void watch_forks();

  /// As ec_cuda_pinned_start().
  int start(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock, void* context);

  /// Whether p lies in the arena, in the parent of this process included.
  bool owns(const void* p) const {
    const std::size_t length = length_.load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(p) - start_.load(std::memory_order_relaxed) < length;
  }
  /// Whether this process is a child of the one that opened the arena, and has its addresses only.
  bool is_inherited() const { return inherited_.load(std::memory_order_relaxed); }

  /// A block aligned to `alignment`, a power of two, and at least to a page. Null if `bytes` is below the
  /// threshold or there is no room.
  void* allocate(std::size_t alignment, std::size_t bytes) {
    return bytes < threshold_.load(std::memory_order_relaxed) ? nullptr : allocate_large(alignment, bytes);
  }
  /// Bytes of the block at p, which owns(); 0 if no block starts there.
  std::size_t size_of(const void* p);
  /// Frees the block at p, which owns(); false if no block starts there.
  bool release(void* p);

  /// Takes no lock.
  ec_cuda_pinned_stats statistics() const;

 private:
  static constexpr std::size_t never = SIZE_MAX;

  void* allocate_large(std::size_t alignment, std::size_t bytes);
  int open(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock, void* context);
  void become_child();
  static Arena* forking;

  std::atomic<std::uintptr_t> start_{0};
  std::atomic<std::size_t> length_{0};
  std::atomic<std::size_t> threshold_{never};
  std::atomic<bool> starting_{false};
  std::atomic<bool> inherited_{false};
  pthread_mutex_t start_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // for the members below
  PageAllocator* allocator_ = nullptr;
  std::atomic<std::uint64_t> used_{0}, peak_{0}, allocated_{0}, released_{0}, refused_{0};
};

}  // namespace ec::pinned
