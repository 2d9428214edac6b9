// Runs a program that compiles in a process of its own.
#include "kernels/cuda/generate/compiler_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
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

/// How long a stop, or an answer, may go unseen.
constexpr std::chrono::milliseconds look_every{5};
/// For a process that was killed, to be gone.
constexpr std::chrono::seconds to_be_gone{1};
constexpr std::size_t longest_answer = std::size_t{64} << 20;

#ifndef MFD_EXEC
constexpr unsigned MFD_EXEC = 0x10;  // Linux 6.3: asked for explicitly
#endif

CompilerReply failure(Kind kind, const char* what, int error) {
  return {kind, std::string(what) + ": " + std::strerror(error)};
}

/// A file in memory with this content; above the standard descriptors, which its process has others in place
/// of. 0 or an errno.
int make_file(std::string_view content, Descriptor* file) {
  *file = Descriptor(memfd_create("ec_cuda_compile", MFD_CLOEXEC | MFD_EXEC));
  if (!*file && errno == EINVAL) *file = Descriptor(memfd_create("ec_cuda_compile", MFD_CLOEXEC));
  if (*file && file->get() <= STDERR_FILENO)
    *file = Descriptor(fcntl(file->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!*file) return errno;
  for (std::size_t done = 0; done < content.size();) {
    const auto at = static_cast<off_t>(done);
    const ssize_t written = pwrite(file->get(), content.data() + done, content.size() - done, at);
    if (written < 0) return errno;
    done += static_cast<std::size_t>(written);
  }
  return 0;
}

std::string path_of(const Descriptor& file) { return "/proc/self/fd/" + std::to_string(file.get()); }

/// A preload of the host's is no business of the compiler's.
std::vector<char*> environment_without_preload() {
  std::vector<char*> kept;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at)
    if (std::strncmp(*at, "LD_PRELOAD=", 11) != 0) kept.push_back(*at);
  kept.push_back(nullptr);
  return kept;
}

/// Starts the program with these as its input and output. 0 or an errno.
int start(const Descriptor& image, const char* argument, const Descriptor& input, const Descriptor& output,
          pid_t* process) {
  const std::string path = path_of(image);
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
  int error = posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  if (error == 0)
    error = posix_spawn(process, path.c_str(), &actions, &attributes, arguments, environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Whether the process has ended. The host may take it before we look.
bool is_over(pid_t process) { return waitpid(process, nullptr, WNOHANG) != 0; }

/// Waits until the process is over, or `until`, or `stop`.
bool wait_for(pid_t process, Clock::time_point until, const std::atomic<bool>& stop) {
  while (!is_over(process)) {
    if (stop || Clock::now() >= until) return false;
    std::this_thread::sleep_for(look_every);
  }
  return true;
}

/// What a program has written, if it is a whole answer.
std::optional<CompilerReply> reply_in(const Descriptor& output) {
  CompilerReplyHead head{};
  struct stat file {};
  if (fstat(output.get(), &file) != 0 || pread(output.get(), &head, sizeof head, 0) != sizeof head)
    return std::nullopt;
  if (head.kind < Kind::cubin || head.kind > Kind::failed || head.bytes > longest_answer ||
      static_cast<std::size_t>(file.st_size) != sizeof head + head.bytes)
    return std::nullopt;
  std::string body(head.bytes, '\0');
  const auto read = pread(output.get(), body.data(), body.size(), sizeof head);
  if (read != static_cast<ssize_t>(body.size())) return std::nullopt;
  return CompilerReply{head.kind, std::move(body)};
}

}  // namespace

std::string_view compiler_program() noexcept {
  return {ec_compile_program, static_cast<std::size_t>(ec_compile_program_end - ec_compile_program)};
}

CompilerReply run_compiler(std::string_view program, const char* argument, std::string_view input,
                           std::chrono::milliseconds deadline, const std::atomic<bool>& stop) {
  Descriptor image, source, answer;
  int error = make_file(program, &image);
  if (error == 0) error = make_file(input, &source);
  if (error == 0) error = make_file({}, &answer);
  if (error != 0)
    return failure(error == EMFILE || error == ENFILE || error == ENOMEM ? Kind::failed : Kind::unavailable,
                   "no program can be put into memory", error);
  pid_t process = 0;
  error = start(image, argument, source, answer, &process);
  if (error != 0)
    return failure(error == EAGAIN || error == ENOMEM ? Kind::failed : Kind::unavailable,
                   "no program can be run from memory", error);
  const rlimit longest{longest_answer, longest_answer};
  prlimit(process, RLIMIT_FSIZE, &longest, nullptr);

  const bool over = wait_for(process, Clock::now() + deadline, stop);
  if (!over) {
    kill(process, SIGKILL);
    static_cast<void>(wait_for(process, Clock::now() + to_be_gone, {}));
  }
  if (auto reply = reply_in(answer)) return *std::move(reply);
  if (stop) return {Kind::failed, "the process ends"};
  return {Kind::failed,
          over ? "the compiler ended without an answer" : "the compiler did not answer in time"};
}

}  // namespace ec::kernels::cuda
