// A preload. Of the allocations of all threads the one numbered EC_FAILING_ALLOCATION fails, with a + behind
// the number each one after it too. EC_ALLOCATIONS names a file that gets how many there were.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "tests/common/allocator.hpp"

namespace {

int (*real_main)(int, char**, char**);

/// What comes before main touches no file.
int counted_main(int argc, char** argv, char** environment) {
  const char* const text = std::getenv("EC_FAILING_ALLOCATION");
  int status = 0;
  const auto costs = ec::test::costs_of([&] {
    char* end = nullptr;
    if (text != nullptr) {
      const auto nth = static_cast<unsigned>(std::strtoul(text, &end, 10));
      ec::test::begin_shortage_of_all_threads(nth, *end == '+');
    }
    status = real_main(argc, argv, environment);
  });
  ec::test::end_shortage();
  const char* const path = std::getenv("EC_ALLOCATIONS");
  if (std::FILE* const file = path != nullptr ? std::fopen(path, "w") : nullptr) {
    std::fprintf(file, "%zu\n", costs.allocations);
    std::fclose(file);
  }
  return status;
}

}  // namespace

extern "C" int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                                 void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  real_main = main;
  const auto next = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
