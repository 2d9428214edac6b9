// Processes that measure the same at the same time.
#pragma once

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <vector>

namespace ec::bench {

/// Children of this process, which has one thread and has not used a GPU, each with a pipe that leads here.
class Processes {
 public:
  /// One of them: its number, what waits until all are there, and where what it says goes.
  struct Member {
    unsigned index;
    std::function<void()> wait;
    int pipe;

    /// Hands plain memory over to who asks for the next of that type. Throws std::system_error.
    template <class T>
    void say(const T& what) const {
      static_assert(std::is_trivially_copyable_v<T>);
      const auto* at = reinterpret_cast<const char*>(&what);
      for (std::size_t done = 0; done < sizeof(T);) {
        const ssize_t written = write(pipe, at + done, sizeof(T) - done);
        if (written < 0) fail("write");
        done += static_cast<std::size_t>(written);
      }
    }
  };

  /// body runs in each of them; what it throws ends it, after it has said that on stderr.
  Processes(unsigned count, const std::function<void(const Member&)>& body) {
    auto* barrier = static_cast<pthread_barrier_t*>(
        mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (barrier == MAP_FAILED) fail("mmap");
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, count);
    for (unsigned i = 0; i < count; ++i) {
      int ends[2];
      if (pipe(ends) != 0) fail("pipe");
      const pid_t pid = fork();
      if (pid < 0) fail("fork");
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
          body({i, [barrier] { pthread_barrier_wait(barrier); }, ends[1]});
        } catch (const std::exception& e) {
          fmt::print(stderr, "ec_bench: {}\n", e.what());
          _exit(1);
        }
        _exit(0);
      }
      close(ends[1]);
      pipes_.push_back(ends[0]);
      pids_.push_back(pid);
    }
  }
  ~Processes() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
    for (const int pipe : pipes_) close(pipe);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Waits for the next that a member says. Throws std::runtime_error as soon as a member fails.
  template <class T>
  T hear(unsigned member) {
    T what;
    auto* at = reinterpret_cast<char*>(&what);
    for (std::size_t done = 0; done < sizeof(T);) {
      pollfd there{pipes_[member], POLLIN, 0};
      if (poll(&there, 1, 50) == 0) {
        look_for_failure();
        continue;
      }
      const ssize_t got = read(pipes_[member], at + done, sizeof(T) - done);
      if (got < 0) fail("read");
      if (got == 0) {
        look_for_failure();
        throw std::runtime_error(fmt::format("a process of {} said too little", pids_.size()));
      }
      done += static_cast<std::size_t>(got);
    }
    return what;
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  /// A member that ended is not reaped, so that its number stays its own.
  void look_for_failure() const {
    for (const pid_t pid : pids_) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        continue;
      if (info.si_code == CLD_EXITED && info.si_status == 0) continue;
      throw std::runtime_error(fmt::format("a process of {} ended with {} {}", pids_.size(),
                                           info.si_code == CLD_EXITED ? "status" : "signal", info.si_status));
    }
  }

  std::vector<int> pipes_;
  std::vector<pid_t> pids_;
};

}  // namespace ec::bench
