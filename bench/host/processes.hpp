// Processes that measure the same at the same time, what each says of a coder, and their sum.
#pragma once

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "bench/common/measure.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {

/// Plain memory, which all processes see.
struct HostResult {
  Result measured{};
  std::array<std::uint64_t, 16> ran{};  ///< calls that each back end finished, in the order of the list
  bool wrong = false;                   ///< of a process's first result: its share in Processes::agree

  /// Adds what another process did at the same time.
  void add(const HostResult& other) {
    measured.add(other.measured);
    std::ranges::transform(ran, other.ran, ran.begin(), std::plus<>{});
  }
  /// "cuda", "cuda+x86": those with the most calls first.
  std::string chosen() const {
    std::multimap<std::uint64_t, std::string_view, std::greater<>> by_calls;
    for (std::size_t i = 0; i < kernels::backends().size(); ++i)
      if (ran[i] > 0) by_calls.emplace(ran[i], kernels::backends()[i]->name());
    std::string names;
    for (const auto& [calls, name] : by_calls) names += fmt::format("{}{}", names.empty() ? "" : "+", name);
    return names;
  }
};

/// This process and its children, all of which go on from here. Each has a number, this one 0, and results in
/// memory that all of them see. Made while the process has one thread and has not used a GPU. If a child
/// fails, all end: the others would wait for it.
class Processes {
  static_assert(std::is_trivially_copyable_v<HostResult>);

 public:
  /// counts: how many measure together, for each time that they do. results: of each process. Throws
  /// std::system_error.
  Processes(const std::vector<std::size_t>& counts, std::size_t results)
      : all_(std::max<std::size_t>(1, std::ranges::max(counts))), results_(results) {
    barriers_ = shared<pthread_barrier_t>(counts.size());
    values_ = shared<HostResult>(all_ * results);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    for (std::size_t i = 0; i < counts.size(); ++i)
      pthread_barrier_init(&barriers_[i], &attributes, static_cast<unsigned>(counts[i]));
    for (std::size_t number = 1; number < all_; ++number) {
      const pid_t child = fork();
      if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        number_ = number;
        return;
      }
    }
    std::thread([] {
      int status = 0;
      while (::wait(&status) > 0 && status == 0) continue;
      if (status == 0) return;
      fmt::print(stderr, "ec_bench: a process ended too early\n");
      _exit(1);
    }).detach();
  }

  std::size_t number() const { return number_; }
  std::span<HostResult> results_of(std::size_t process) const {
    return {values_ + process * results_, results_};
  }
  /// Waits for all that measure together this time.
  void wait(std::size_t time) const { pthread_barrier_wait(&barriers_[time]); }
  /// Waits too. Whether all of them are right.
  bool agree(std::size_t time, bool right) const {
    results_of(number_).front().wrong = !right;
    wait(time);
    const bool all = std::ranges::none_of(std::span(values_, all_ * results_), &HostResult::wrong);
    wait(time);
    return all;
  }

 private:
  template <class Shared>
  static Shared* shared(std::size_t count) {
    void* const memory =
        mmap(nullptr, count * sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return static_cast<Shared*>(memory);
  }

  std::size_t number_ = 0, all_, results_;
  pthread_barrier_t* barriers_;
  HostResult* values_;
};

}  // namespace ec::bench
