// Threads of our own in a process that belongs to somebody else.
#include "support/background_thread.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <new>
#include <utility>

namespace ec::support {
namespace {

struct Start {
  const char* name;
  std::function<void()> body;
};

void* run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  pthread_setname_np(pthread_self(), start->name);
  try {
    start->body();
  } catch (...) {
    // The body has reported all it could; a thread must not end its process.
  }
  return nullptr;
}

}  // namespace

int BackgroundThread::start(const char* name, std::function<void()> body) noexcept {
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

bool BackgroundThread::started() const noexcept { return process_ != 0 && process_ == getpid(); }

void BackgroundThread::join(std::chrono::seconds patience) noexcept {
  if (!started()) return;
  process_ = 0;
  timespec end{};
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += patience.count();
  if (pthread_timedjoin_np(thread_, nullptr, &end) != 0) pthread_detach(thread_);
}

}  // namespace ec::support
