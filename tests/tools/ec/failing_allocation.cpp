// A preload. Of the allocations of all threads the one numbered EC_FAILING_ALLOCATION fails, with a + behind
// the number each one after it too. EC_ALLOCATIONS names a file that gets how many there were.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constinit std::atomic<unsigned long> made{0};
constinit unsigned long failing = 0;  // 0: none
constinit bool fails_on = false;

bool fails() {
  const auto number = made.fetch_add(1) + 1;
  if (failing == 0 || number < failing || (number > failing && !fails_on)) return false;
  errno = ENOMEM;
  return true;
}

int (*real_main)(int, char**, char**);

/// What comes before main touches no file.
int counted_main(int argc, char** argv, char** environment) {
  const char* const text = std::getenv("EC_FAILING_ALLOCATION");
  if (text != nullptr) {
    fails_on = std::strchr(text, '+') != nullptr;
    failing = std::strtoul(text, nullptr, 10);
  }
  made = 0;
  return real_main(argc, argv, environment);
}

[[gnu::destructor]] void end() {
  const auto count = made.load();
  const char* const path = std::getenv("EC_ALLOCATIONS");
  std::FILE* const file = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%lu\n", count);
  std::fclose(file);
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  real_main = main;
  const auto next = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) { return fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* old, std::size_t bytes) { return fails() ? nullptr : __libc_realloc(old, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  *result = aligned_alloc(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}
