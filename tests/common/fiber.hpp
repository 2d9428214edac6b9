// Work on a stack as short as a fiber's.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace ec::test {

/// What ec.h promises that no call exceeds.
constexpr std::size_t promised_stack = std::size_t{32} << 10;

/// Runs `work` on a stack of promised_stack bytes and returns how many of them were touched. Nothing can be
/// touched below. A thread's stack would hold the thread's variables too; a fiber's holds the calls alone.
/// For one thread at a time; `work` throws nothing. With a sanitizer `work` runs where it is, and the answer
/// is 0.
inline std::size_t stack_used(const std::function<void()>& work) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  work();  // they do not know such stacks, and frames with their checks are longer
  return 0;
#endif
  constexpr std::size_t guard = std::size_t{1} << 20;
  constexpr std::uint8_t untouched = 0xa5;
  static ucontext_t caller, fiber;
  static const std::function<void()>* current;
  static std::uint8_t* const stack = [] {
    void* const mapped =
        mmap(nullptr, guard + promised_stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED || mprotect(mapped, guard, PROT_NONE) != 0) std::abort();
    return static_cast<std::uint8_t*>(mapped) + guard;
  }();
  std::fill_n(stack, promised_stack, untouched);
  current = &work;
  getcontext(&fiber);
  fiber.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = promised_stack};
  fiber.uc_link = &caller;
  makecontext(
      &fiber, [] { (*current)(); }, 0);
  swapcontext(&caller, &fiber);
  const auto* const lowest =
      std::find_if(stack, stack + promised_stack, [](auto byte) { return byte != untouched; });
  return static_cast<std::size_t>(stack + promised_stack - lowest);
}

}  // namespace ec::test
