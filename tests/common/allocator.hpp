// What calls allocate and lock, and allocations that fail, in a program that links allocator.cpp, which
// stands in front of the C library's allocator and locks. Not for builds with sanitizers, which stand there
// themselves.
#pragma once

#include <cstddef>
#include <functional>

namespace ec::test {

/// Of the whole process.
struct CallCosts {
  std::size_t allocations = 0;  ///< malloc, calloc, realloc and their aligned kin, so operator new too
  std::size_t locks = 0;        ///< mutexes and reader-writer locks, taken or tried

  friend bool operator==(const CallCosts&, const CallCosts&) = default;
};

/// The costs of one call of `f`, those of other threads meanwhile included.
CallCosts costs_of(const std::function<void()>& f);

/// none: `f` made no system call. some: it made one. unknown: this system cannot tell.
enum class SystemCalls { none, some, unknown };

/// Runs `f` in a child process, which may make none.
SystemCalls system_calls_of(const std::function<void()>& f);

/// From now on the nth allocation of this thread (1: the next) fails, and every one after it too if `all`.
/// Everybody's count: operator new, what the C library allocates for itself, exceptions.
void begin_shortage(unsigned nth, bool all);

/// The same for the allocations of all threads, counted together.
void begin_shortage_of_all_threads(unsigned nth, bool all);

/// Ends both. How many allocations failed.
unsigned end_shortage();

/// Between begin and end, which nest, this thread's allocations neither count nor fail: those of a driver,
/// say.
void spare_allocations(bool begin);

}  // namespace ec::test
