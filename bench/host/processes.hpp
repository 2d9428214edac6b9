// Processes that measure the same at the same time.
#pragma once

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <span>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace ec::bench {

/// This process and its children, all of which go on from here. Each has a number, this one 0, and results in
/// memory that all of them see. Made while the process has one thread and has not used a GPU. If a child
/// fails, all end: the others would wait for it.
template <class T>
class Processes {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// counts: how many measure together, for each time that they do. results: of each process. Throws
  /// std::system_error.
  Processes(const std::vector<std::size_t>& counts, std::size_t results) : results_(results) {
    std::size_t all = 1;
    for (const std::size_t count : counts) all = std::max(all, count);
    barriers_ = shared<pthread_barrier_t>(counts.size());
    values_ = shared<T>(all * results);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    for (std::size_t i = 0; i < counts.size(); ++i)
      pthread_barrier_init(&barriers_[i], &attributes, static_cast<unsigned>(counts[i]));
    std::vector<pid_t> children;
    for (std::size_t number = 1; number < all; ++number) {
      const pid_t child = fork();
      if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        number_ = number;
        return;
      }
      children.push_back(child);
    }
    for (const pid_t child : children)
      std::thread([child] {
        int status = 0;
        if (waitpid(child, &status, 0) != child || status == 0) return;
        fmt::print(stderr, "ec_bench: a process ended too early\n");
        _exit(1);
      }).detach();
  }

  std::size_t number() const { return number_; }
  std::span<T> results_of(std::size_t process) const { return {values_ + process * results_, results_}; }
  /// Waits for all that measure together this time.
  void wait(std::size_t time) const { pthread_barrier_wait(&barriers_[time]); }

 private:
  template <class Shared>
  static Shared* shared(std::size_t count) {
    void* const memory =
        mmap(nullptr, count * sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return static_cast<Shared*>(memory);
  }

  std::size_t number_ = 0, results_;
  pthread_barrier_t* barriers_;
  T* values_;
};

}  // namespace ec::bench
