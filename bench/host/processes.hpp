// `ec_bench host --processes N`: the same measurement by many processes at once, in step by a barrier in
// shared memory.
#pragma once

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>

namespace ec::bench {

/// What one of the processes measures. index: from 0. wait: until all of them are here.
using Member = std::function<nlohmann::json(unsigned index, const std::function<void()>& wait)>;

namespace processes {

[[noreturn]] inline void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

inline pthread_barrier_t* make_barrier(unsigned count) {
  void* at =
      mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("mmap");
  auto* barrier = static_cast<pthread_barrier_t*>(at);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(barrier, &attributes, count);
  return barrier;
}

/// In the child: ends it.
[[noreturn]] inline void run_member(unsigned index, pthread_barrier_t* barrier, const Member& member,
                                    std::FILE* report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const std::string text = member(index, [&] { pthread_barrier_wait(barrier); }).dump();
    if (std::fputs(text.c_str(), report) < 0 || std::fflush(report) != 0) fail("write");
  } catch (const std::exception& e) {
    fmt::print(stderr, "ec_bench: {}\n", e.what());
    _exit(1);
  }
  _exit(0);
}

/// The exit status of the first member that fails, after which the others are ended; 0 if none does.
inline int wait_for(std::set<pid_t> members) {
  int failed = 0;
  while (!members.empty()) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno != EINTR) fail("waitpid");
    if (members.erase(pid) == 0 || status == 0 || failed != 0) continue;
    failed = status;
    for (const pid_t other : members) kill(other, SIGKILL);
  }
  return failed;
}

}  // namespace processes

/// Runs it in `count` children of this process, which has one thread and has not used a GPU, and returns what
/// each of them returned. One that fails says why on stderr and ends them all. Throws std::runtime_error.
inline std::vector<nlohmann::json> run_in_processes(unsigned count, const Member& member) {
  pthread_barrier_t* barrier = processes::make_barrier(count);
  std::vector<std::FILE*> reports;
  std::set<pid_t> members;
  for (unsigned i = 0; i < count; ++i) {
    reports.push_back(std::tmpfile());
    if (reports.back() == nullptr) processes::fail("tmpfile");
    const pid_t pid = fork();
    if (pid < 0) processes::fail("fork");
    if (pid == 0) processes::run_member(i, barrier, member, reports.back());
    members.insert(pid);
  }
  const int failed = processes::wait_for(std::move(members));
  if (failed != 0)
    throw std::runtime_error(
        WIFSIGNALED(failed)
            ? fmt::format("a process of {} was ended by signal {}", count, WTERMSIG(failed))
            : fmt::format("a process of {} ended with status {}", count, WEXITSTATUS(failed)));
  std::vector<nlohmann::json> results;
  for (std::FILE* report : reports) {
    std::rewind(report);
    results.push_back(nlohmann::json::parse(report));
    std::fclose(report);
  }
  return results;
}

}  // namespace ec::bench
