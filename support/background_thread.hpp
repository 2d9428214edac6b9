// Threads of our own in a process that belongs to somebody else.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <new>
#include <utility>

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
  int start(const char* name, std::function<void()> body) noexcept {
    if (started()) pthread_join(thread_, nullptr);
    process_ = 0;
    std::unique_ptr<Start> start(new (std::nothrow) Start{name, std::move(body)});
    if (!start) return -ENOMEM;
    sigset_t all, before;
    sigfillset(&all);
    // The thread inherits the mask of its starter.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread_, nullptr, run, start.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) return -error;
    static_cast<void>(start.release());
    process_ = getpid();
    return 0;
  }

  /// Whether this process has started a thread that was not joined yet.
  bool started() const noexcept { return process_ != 0 && process_ == getpid(); }

  /// Waits for the thread to end, but no longer than `patience`. For the end of a process: objects that are
  /// destroyed there should have no thread of ours in them.
  void join(std::chrono::seconds patience = std::chrono::seconds(10)) noexcept {
    if (!started()) return;
    process_ = 0;
    timespec end{};
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += patience.count();
    if (pthread_timedjoin_np(thread_, nullptr, &end) != 0) pthread_detach(thread_);
  }

 private:
  struct Start {
    const char* name;
    std::function<void()> body;
  };

  static void* run(void* argument) {
    const std::unique_ptr<Start> start(static_cast<Start*>(argument));
    pthread_setname_np(pthread_self(), start->name);
    try {
      start->body();
    } catch (...) {
      // The body has reported all it could; a thread must not end its process.
    }
    return nullptr;
  }

  pthread_t thread_{};
  pid_t process_ = 0;  // the process that started the thread; 0: none to join
};

}  // namespace ec::support
