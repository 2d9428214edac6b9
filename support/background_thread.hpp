// Threads of our own in a process that belongs to somebody else.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <utility>

#include "support/no_cancellation.hpp"

namespace ec::support {

/// One thread at a time. It has a name, it handles no signal (the host's handlers run in the host's threads),
/// and no exception leaves it. One rule for its end: it is joined, by the next start() or by join(); a thread
/// that keeps join() waiting for too long is detached and runs on, so this object and all data of the thread
/// must never be destroyed, and there is no start() after that. Not thread safe: the owner sees to it that
/// calls do not overlap. In a child of fork() there is no thread.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Runs `body` in a thread called `name` (at most 15 characters). Waits for the thread before,
  /// which should have nothing left to do. 0, or -errno if the system has no thread or no memory for it.
  int start(const char* name, std::function<void()> body) noexcept {
    const NoCancellation whole;
    if (started()) pthread_join(thread_, nullptr);
    process_ = 0;
    name_ = name;
    body_ = std::move(body);
    sigset_t all, before;
    sigfillset(&all);
    // The thread inherits the mask of its starter.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread_, nullptr, run, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0) process_ = getpid();
    return -error;
  }

  /// Whether this process has started a thread that was not joined yet.
  bool started() const noexcept { return process_ != 0 && process_ == getpid(); }

  /// Waits for the thread to end, but not beyond `end`. For the end of a process: objects that are destroyed
  /// there should have no thread of ours in them.
  void join(std::chrono::steady_clock::time_point end) noexcept {
    if (!started()) return;
    const NoCancellation whole;
    process_ = 0;
    // ThreadSanitizer does not know pthread_clockjoin_np().
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += std::chrono::ceil<std::chrono::seconds>(end - std::chrono::steady_clock::now()).count();
    if (pthread_timedjoin_np(thread_, nullptr, &until) != 0) pthread_detach(thread_);
  }

 private:
  static void* run(void* self) {
    const auto& thread = *static_cast<BackgroundThread*>(self);
    pthread_setname_np(pthread_self(), thread.name_);
    try {
      thread.body_();
    } catch (...) {
      // The body has reported all it could; a thread must not end its process.
    }
    return nullptr;
  }

  pthread_t thread_{};
  pid_t process_ = 0;  // the process that started the thread; 0: none to join
  const char* name_ = nullptr;
  std::function<void()> body_;
};

}  // namespace ec::support
