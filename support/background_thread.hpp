// Threads of our own in a process that belongs to somebody else.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <chrono>
#include <functional>

namespace ec::support {

/// One thread at a time. It has a name, it handles no signal (the host's handlers run in the host's threads),
/// and no exception leaves it. One rule for its end: it is joined, by the next start() or by join(); a thread
/// that keeps join() waiting for too long is detached and runs on, so all its data must never be destroyed.
/// Not thread safe: the owner sees to it that calls do not overlap. In a child of fork() there is no thread.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  ~BackgroundThread() { join(); }

  /// Runs `body` in a thread called `name` (at most 15 characters). Waits for the thread before,
  /// which should have nothing left to do. 0, or -errno if the system has no thread or no memory for it.
  int start(const char* name, std::function<void()> body) noexcept;

  /// Whether this process has started a thread that was not joined yet.
  bool started() const noexcept;

  /// Waits for the thread to end, but no longer than `patience`. For the end of a process: objects that are
  /// destroyed there should have no thread of ours in them.
  void join(std::chrono::seconds patience = std::chrono::seconds(10)) noexcept;

 private:
  pthread_t thread_{};
  pid_t process_ = 0;  // the process that started the thread; 0: none to join
};

}  // namespace ec::support
