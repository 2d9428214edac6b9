// What a call costs besides its work: allocations and locks of the whole process, seen by standing in front
// of the C library's functions, and system calls, seen by a child process that may make none. Not for builds
// with sanitizers, which stand there themselves.
#pragma once

#include <cstddef>
#include <functional>

namespace ec::test {

struct CallCosts {
  std::size_t allocations = 0;  ///< malloc, calloc, realloc and their aligned kin, so operator new too
  std::size_t locks = 0;        ///< mutexes and reader-writer locks, taken or tried

  friend bool operator==(const CallCosts&, const CallCosts&) = default;
};

/// The costs of one call of `f`, those of other threads meanwhile included.
CallCosts costs_of(const std::function<void()>& f);

/// none: `f` made no system call. some: it made one. unknown: this system cannot tell.
enum class SystemCalls { none, some, unknown };

/// Runs `f` in a child process.
SystemCalls system_calls_of(const std::function<void()>& f);

}  // namespace ec::test
