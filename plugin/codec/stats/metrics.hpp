// The counters as a file for Prometheus, written by a thread of its own while the process codes.
#pragma once

#include <chrono>
#include <string>

#include "plugin/codec/stats/counters.hpp"

namespace ec::codec {

struct MetricsWish {
  /// Absolute; ends in .prom. "{pid}" in it becomes the PID. Empty: no file.
  std::string path;
  std::chrono::seconds interval{15};
  /// Called with one line if the file cannot be written, once in a process. Null: silence.
  void (*log)(const char* line) = nullptr;
};

/// Notes what is wanted, no more: a daemon may fork after this. The first wish of a process stays.
void want_metrics(const MetricsWish& wish) noexcept;

/// Called with every job that was timed, the first one of each thread among them. Starts the thread that
/// writes the file, if one is wanted; once a second looks at the arena of libec_cuda_pinned.so. A child of
/// fork() whose parent had begun to write writes nothing.
///
/// The thread has all signals blocked. At exit() it is waited for, but no longer than a second, and removes
/// the file; a process that ends otherwise leaves it.
void look_after_metrics(Counters::Clock::time_point now) noexcept;

}  // namespace ec::codec
