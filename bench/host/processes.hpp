// Processes that measure the same at the same time.
#pragma once

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <vector>

#include "support/files.hpp"

namespace ec::bench {

inline void require_call(bool done, const char* call) {
  if (!done) throw std::system_error(errno, std::generic_category(), call);
}

/// Children of this process, which has one thread and has not used a GPU, each with a socket that keeps what
/// it says in pieces.
class Processes {
 public:
  /// One of them: its number, what waits until all are there, and where what it says goes.
  struct Member {
    unsigned index;
    std::function<void()> wait;
    int socket;

    /// Hands plain memory over to who asks for the next of all. Throws std::system_error.
    template <class T>
    void say(const T& what) const {
      static_assert(std::is_trivially_copyable_v<T>);
      require_call(send(socket, &what, sizeof(T), 0) == sizeof(T), "send");
    }
  };

  /// body runs in each of them; what it throws ends it, after it has said that on stderr.
  Processes(unsigned count, const std::function<void(const Member&)>& body) {
    auto* barrier = static_cast<pthread_barrier_t*>(
        mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    require_call(barrier != MAP_FAILED, "mmap");
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, count);
    for (unsigned i = 0; i < count; ++i) {
      int ends[2];
      require_call(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
      sockets_.emplace_back(ends[0]);
      const support::Descriptor of_member(ends[1]);
      const pid_t pid = fork();
      require_call(pid >= 0, "fork");
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
          body({i, [barrier] { pthread_barrier_wait(barrier); }, of_member.get()});
        } catch (const std::exception& e) {
          fmt::print(stderr, "ec_bench: {}\n", e.what());
          _exit(1);
        }
        _exit(0);
      }
      pids_.push_back(pid);
    }
  }
  ~Processes() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Waits for the next that each member says. Throws std::runtime_error as soon as one of them ends instead:
  /// the others would wait for it.
  template <class T>
  std::vector<T> hear() {
    std::vector<T> all(pids_.size());
    std::vector<pollfd> silent;
    for (const auto& socket : sockets_) silent.push_back({socket.get(), POLLIN, 0});
    for (std::size_t heard = 0; heard < all.size();) {
      require_call(poll(silent.data(), silent.size(), -1) > 0, "poll");
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (silent[i].fd < 0 || silent[i].revents == 0) continue;
        if (recv(silent[i].fd, &all[i], sizeof(T), 0) != sizeof(T))
          throw std::runtime_error(fmt::format("a process of {} ended too early", pids_.size()));
        silent[i].fd = -1;  // for poll(): none
        ++heard;
      }
    }
    return all;
  }

 private:
  std::vector<support::Descriptor> sockets_;
  std::vector<pid_t> pids_;
};

}  // namespace ec::bench
