// Opens the arena, and keeps its children out of it.
#include "plugin/pinned/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace ec::pinned {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t largest_arena = std::size_t{1} << 40;

class Locked {
 public:
  explicit Locked(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Locked() { pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

/// Adds n; returns the sum. Only one thread at a time writes, so this need not be one operation.
std::uint64_t add(std::atomic<std::uint64_t>& count, std::uint64_t n) {
  const std::uint64_t sum = count.load(std::memory_order_relaxed) + n;
  count.store(sum, std::memory_order_relaxed);
  return sum;
}

std::uint8_t* map(std::size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(p);
}

/// `bytes` aligned to a huge page, of huge pages where the system has them, absent in children; null on
/// failure.
std::uint8_t* map_arena(std::size_t bytes) {
  std::uint8_t* wide = map(bytes + huge_page, PROT_READ | PROT_WRITE);
  if (wide == nullptr) return nullptr;
  const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(wide) % huge_page) % huge_page;
  std::uint8_t* start = wide + before;
  if (before != 0) munmap(wide, before);
  if (before != huge_page) munmap(start + bytes, huge_page - before);
  madvise(start, bytes, MADV_HUGEPAGE);
  if (madvise(start, bytes, MADV_DONTFORK) == 0) return start;
  munmap(start, bytes);
  return nullptr;
}

}  // namespace

Arena* Arena::forking = nullptr;

int Arena::start(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock, void* context) {
  if (bytes == 0 || bytes > largest_arena || threshold == 0 || lock == nullptr) return -EINVAL;
  if (is_inherited()) return -ENOTSUP;
  Locked locked(start_mutex_);
  if (const std::size_t length = length_.load(std::memory_order_acquire))
    return lock(reinterpret_cast<void*>(start_.load(std::memory_order_relaxed)), length, context);
  starting_ = true;
  const int error = open((bytes + huge_page - 1) / huge_page * huge_page, threshold, lock, context);
  starting_ = false;
  return error;
}

int Arena::open(std::size_t bytes, std::size_t threshold, ec_cuda_pinned_lock* lock, void* context) {
  const std::size_t book_bytes = sizeof(PageAllocator) + PageAllocator::book_bytes(bytes);
  std::uint8_t* start = map_arena(bytes);
  std::uint8_t* books = map(book_bytes, PROT_READ | PROT_WRITE);
  if (const int error = start == nullptr || books == nullptr ? -ENOMEM : lock(start, bytes, context)) {
    if (start != nullptr) munmap(start, bytes);
    if (books != nullptr) munmap(books, book_bytes);
    return error;
  }
  Locked locked(mutex_);
  allocator_ = new (books) PageAllocator(start, bytes, books + sizeof(PageAllocator));
  start_.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
  length_.store(bytes, std::memory_order_release);
  threshold_.store(std::min(threshold, never - 1), std::memory_order_release);
  return 0;
}

void* Arena::allocate_large(std::size_t alignment, std::size_t bytes) {
  Locked locked(mutex_);
  if (allocator_ == nullptr || is_inherited()) return nullptr;
  void* p = allocator_->allocate(alignment, bytes);
  if (p == nullptr) {
    add(refused_, 1);
    return nullptr;
  }
  add(allocated_, 1);
  const std::uint64_t used = add(used_, allocator_->size_of(p));
  if (used > peak_.load(std::memory_order_relaxed)) peak_.store(used, std::memory_order_relaxed);
  return p;
}

std::size_t Arena::size_of(const void* p) {
  Locked locked(mutex_);
  return allocator_->size_of(p);
}

bool Arena::release(void* p) {
  Locked locked(mutex_);
  const std::size_t bytes = allocator_->release(p);
  if (bytes == 0) return false;
  add(released_, 1);
  add(used_, -std::uint64_t{bytes});
  return true;
}

ec_cuda_pinned_stats Arena::statistics() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  return {length_.load(relaxed),    used_.load(relaxed),     peak_.load(relaxed),
          allocated_.load(relaxed), released_.load(relaxed), refused_.load(relaxed)};
}

// The books must be whole in the child, so no other thread may work on them when the child begins.
void Arena::watch_forks() {
  forking = this;
  pthread_atfork([] { pthread_mutex_lock(&forking->mutex_); }, [] { pthread_mutex_unlock(&forking->mutex_); },
                 [] { forking->become_child(); });
}

void Arena::become_child() {
  const std::size_t length = length_.load(std::memory_order_relaxed);
  // A child that forked while another thread was in start() has that thread's lock and not that thread.
  if (length != 0 || starting_) inherited_.store(true, std::memory_order_relaxed);
  threshold_.store(never, std::memory_order_relaxed);
  // Never replaces an existing mapping; if it fails, the best course is to go on.
  if (length != 0)
    (void)mmap(reinterpret_cast<void*>(start_.load(std::memory_order_relaxed)), length, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  pthread_mutex_unlock(&mutex_);
}

}  // namespace ec::pinned
