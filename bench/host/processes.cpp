// Starts the members, keeps them in step by a barrier in shared memory, and collects their reports.
#include "bench/host/processes.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace ec::bench {

struct Step::Shared {
  pthread_barrier_t barrier;
  std::atomic<bool> answer;
};

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// Inherited by what is started.
int open_memory() {
  const int fd = memfd_create("ec_bench", 0);
  if (fd < 0) fail("memfd_create");
  return fd;
}

void* map_shared(int fd, std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail("mmap");
  return at;
}

struct Member {
  pid_t pid = -1;
  int report_fd = -1;
};

Member start_member(unsigned index, int shared_fd, const std::vector<std::string>& arguments) {
  Member member{.report_fd = open_memory()};
  std::vector<std::string> words{"ec_bench", "host"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--member", fmt::format("{}:{}:{}", index, shared_fd, member.report_fd)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  member.pid = fork();
  if (member.pid < 0) fail("fork");
  if (member.pid > 0) return member;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) execv("/proc/self/exe", argv.data());
  _exit(127);
}

/// The exit status of the first member that fails, after which the others are ended; 0 if none does.
int wait_for(std::vector<Member>& members) {
  int failed = 0;
  for (std::size_t left = members.size(); left > 0;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) fail("waitpid");
    for (Member& member : members)
      if (member.pid == pid) {
        member.pid = -1;
        --left;
      }
    if (status == 0 || failed != 0) continue;
    failed = status;
    for (const Member& member : members)
      if (member.pid > 0) kill(member.pid, SIGKILL);
  }
  return failed;
}

nlohmann::json read_report(int fd) {
  std::string text;
  std::string part(1 << 16, '\0');
  lseek(fd, 0, SEEK_SET);
  for (ssize_t got; (got = read(fd, part.data(), part.size())) != 0;) {
    if (got < 0) fail("read");
    text.append(part, 0, static_cast<std::size_t>(got));
  }
  close(fd);
  return nlohmann::json::parse(text);
}

}  // namespace

void hand_over(const Membership& member, const nlohmann::json& report) {
  const std::string text = report.dump();
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(member.report_fd, text.data() + at, text.size() - at);
    if (wrote < 0) fail("write");
    at += static_cast<std::size_t>(wrote);
  }
}

Step::Step(const Membership& member) : leads_(member.index == 0) {
  if (member.shared_fd >= 0) shared_ = static_cast<Shared*>(map_shared(member.shared_fd, sizeof(Shared)));
}

Step::~Step() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
}

void Step::wait() const {
  if (shared_ != nullptr) pthread_barrier_wait(&shared_->barrier);
}

bool Step::agree(bool mine) const {
  if (shared_ == nullptr) return mine;
  if (leads_) shared_->answer = mine;
  wait();
  const bool answer = shared_->answer;
  wait();
  return answer;
}

std::vector<nlohmann::json> run_members(unsigned count, const std::vector<std::string>& arguments) {
  const int shared_fd = open_memory();
  if (ftruncate(shared_fd, sizeof(Step::Shared)) != 0) fail("ftruncate");
  auto* shared = new (map_shared(shared_fd, sizeof(Step::Shared))) Step::Shared;
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, count);

  std::vector<Member> members;
  for (unsigned i = 0; i < count; ++i) members.push_back(start_member(i, shared_fd, arguments));
  const int failed = wait_for(members);
  close(shared_fd);
  munmap(shared, sizeof(Step::Shared));
  if (failed != 0)
    throw std::runtime_error(
        WIFSIGNALED(failed)
            ? fmt::format("a process of {} was ended by signal {}", count, WTERMSIG(failed))
            : fmt::format("a process of {} ended with status {}", count, WEXITSTATUS(failed)));
  std::vector<nlohmann::json> reports;
  for (const Member& member : members) reports.push_back(read_report(member.report_fd));
  return reports;
}

}  // namespace ec::bench
