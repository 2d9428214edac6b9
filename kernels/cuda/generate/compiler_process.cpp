// Runs a program that compiles in a process of its own.
#include "kernels/cuda/generate/compiler_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "support/files.hpp"

// Of compile_program.cpp, linked in as data (cmake/Cuda.cmake).
extern "C" const char ec_compile_program[];
extern "C" const char ec_compile_program_end[];

namespace ec::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = CompilerReply::Kind;
using support::Descriptor;

/// How long a stop may go unseen.
constexpr int look_every_milliseconds = 20;
/// For a process that was killed, to be gone.
constexpr std::chrono::seconds to_be_gone{1};
constexpr std::size_t longest_answer = std::size_t{64} << 20;

#ifndef MFD_EXEC
constexpr unsigned MFD_EXEC = 0x10;  // Linux 6.3: asked for explicitly
#endif

CompilerReply failure(Kind kind, const char* what, int error) {
  return {kind, std::string(what) + ": " + std::strerror(error)};
}

/// A file in memory with these bytes, which nobody can change; above the standard descriptors, which its
/// process has others in place of. 0 or an errno.
int make_image(std::string_view program, Descriptor* image) {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  *image = Descriptor(memfd_create("ec_cuda_compile", flags | MFD_EXEC));
  if (image->get() < 0 && errno == EINVAL) *image = Descriptor(memfd_create("ec_cuda_compile", flags));
  if (image->get() >= 0 && image->get() <= STDERR_FILENO)
    *image = Descriptor(fcntl(image->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (image->get() < 0) return errno;
  while (!program.empty()) {
    const ssize_t n = write(image->get(), program.data(), program.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) program.remove_prefix(static_cast<std::size_t>(n));
  }
  constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  return fcntl(image->get(), F_ADD_SEALS, seals) == 0 ? 0 : errno;
}

/// A preload of the host's is no business of the compiler's.
std::vector<char*> environment_without_preload() {
  std::vector<char*> kept;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at)
    if (std::strncmp(*at, "LD_PRELOAD=", 11) != 0) kept.push_back(*at);
  kept.push_back(nullptr);
  return kept;
}

/// Starts the program with `socket` as its input and output. 0 or an errno.
int start(int image, const char* argument, int socket, pid_t* process) {
  const std::string path = "/proc/self/fd/" + std::to_string(image);
  std::string name = "ec_cuda_compile", word = argument;
  char* arguments[] = {name.data(), word.data(), nullptr};
  std::vector<char*> environment = environment_without_preload();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int error = posix_spawn_file_actions_init(&actions)) return error;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  int error = posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  if (error == 0)
    error = posix_spawn(process, path.c_str(), &actions, &attributes, arguments, environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Ends the process, if the host has not taken it: then the number may be another's.
void end(pid_t process) {
  if (waitpid(process, nullptr, WNOHANG) != 0) return;
  kill(process, SIGKILL);
  const auto until = Clock::now() + to_be_gone;
  while (waitpid(process, nullptr, WNOHANG) == 0 && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Writes `input` to a process and reads what it answers.
class Conversation {
 public:
  Conversation(int socket, std::string_view input) : socket_(socket), input_(input) {
    if (input_.empty()) shutdown(socket_, SHUT_WR);
  }

  /// Goes on for a moment.
  void step() {
    pollfd ready{socket_, static_cast<short>(input_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    if (poll(&ready, 1, look_every_milliseconds) <= 0) return;
    if ((ready.revents & POLLOUT) != 0) write_some();
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_some();
  }
  /// Whether the answer is there, or can be none.
  bool over() const { return !open_ || too_long() || whole(); }
  bool whole() const {
    return answer_.size() >= sizeof(CompilerReplyHead) &&
           answer_.size() == sizeof(CompilerReplyHead) + head().bytes && head().kind >= Kind::version &&
           head().kind <= Kind::failed;
  }
  CompilerReply reply() const { return {head().kind, answer_.substr(sizeof(CompilerReplyHead))}; }

 private:
  CompilerReplyHead head() const {
    CompilerReplyHead head{};
    std::memcpy(&head, answer_.data(), sizeof head);
    return head;
  }
  bool too_long() const { return answer_.size() > longest_answer; }
  void write_some() {
    const ssize_t n = send(socket_, input_.data(), input_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) input_.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR && errno != EAGAIN) input_ = {};
    if (input_.empty()) shutdown(socket_, SHUT_WR);
  }
  void read_some() {
    char buffer[65536];
    const ssize_t n = recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) answer_.append(buffer, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) open_ = false;
  }

  int socket_;
  std::string_view input_;
  std::string answer_;
  bool open_ = true;
};

}  // namespace

std::string_view compiler_program() noexcept {
  return {ec_compile_program, static_cast<std::size_t>(ec_compile_program_end - ec_compile_program)};
}

CompilerReply run_compiler(std::string_view program, const char* argument, std::string_view input,
                           std::chrono::milliseconds deadline, const std::atomic<bool>& stop) {
  Descriptor image;
  if (const int error = make_image(program, &image))
    return failure(error == EMFILE || error == ENFILE || error == ENOMEM ? Kind::failed : Kind::unavailable,
                   "no program can be put into memory", error);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return failure(Kind::failed, "no socket", errno);
  const Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  pid_t process = 0;
  if (const int error = start(image.get(), argument, theirs.get(), &process))
    return failure(error == EAGAIN || error == ENOMEM ? Kind::failed : Kind::unavailable,
                   "no program can be run from memory", error);
  theirs = Descriptor();

  Conversation talk(ours.get(), input);
  try {
    const auto until = Clock::now() + deadline;
    while (!talk.over() && !stop && Clock::now() < until) talk.step();
  } catch (const std::bad_alloc&) {
    end(process);
    throw;
  }
  end(process);
  if (talk.whole()) return talk.reply();
  if (stop) return {Kind::failed, "the process ends"};
  return {Kind::failed,
          talk.over() ? "the compiler ended without an answer" : "the compiler did not answer in time"};
}

}  // namespace ec::kernels::cuda
