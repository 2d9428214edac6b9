// Stands in front of the C library's allocator, and of a preload for aligned memory, and fails where it is
// asked to.
#include "tests/common/failing_memory.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstddef>

namespace {

struct Shortage {
  unsigned left = 0;  // allocations until one fails; 0: none does
  bool all = false;
  unsigned failed = 0;
  unsigned spared = 0;
};
constinit thread_local Shortage shortage;

bool fails() {
  if (shortage.left == 0 || shortage.spared != 0) return false;
  if (shortage.left > 1) return --shortage.left, false;
  if (!shortage.all) shortage.left = 0;
  ++shortage.failed;
  errno = ENOMEM;
  return true;
}

using Memalign = int (*)(void**, std::size_t, std::size_t);
/// Looked for before the first test.
const auto next_memalign = reinterpret_cast<Memalign>(dlsym(RTLD_NEXT, "posix_memalign"));

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
}

namespace ec::test {

void begin_shortage(unsigned nth, bool all) { shortage = {nth, all, 0, shortage.spared}; }

unsigned end_shortage() {
  const unsigned failed = shortage.failed;
  shortage = {0, false, 0, shortage.spared};
  return failed;
}

void spare_allocations(bool begin) { begin ? ++shortage.spared : --shortage.spared; }

}  // namespace ec::test
