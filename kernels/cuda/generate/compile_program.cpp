// The program that compiles generated programs, embedded in the plugin and run as a process of its own
// (compiler_process.hpp). One compilation, from standard input to standard output.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/cuda/generate/compiler_process.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"

namespace ec::kernels::cuda {
namespace {

using Kind = CompilerReply::Kind;

/// A compiler must not take a core from a storage daemon that has use for it.
constexpr int niceness = 10;

std::string read_input() {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      return text;
  }
}

CompilerReply answer(const char* argument) try {
  if (std::string missing = nvrtc_missing(); !missing.empty()) return {Kind::unavailable, std::move(missing)};
  if (std::strcmp(argument, ask_for_version) == 0) {
    std::string version = nvrtc_version();
    return version.empty() ? CompilerReply{Kind::failed, "NVRTC does not say its version"}
                           : CompilerReply{Kind::version, std::move(version)};
  }
  Compiled compiled = compile(read_input(), static_cast<unsigned>(std::atoi(argument)));
  if (!compiled) return {Kind::refused, std::move(compiled.log)};
  return {Kind::cubin, std::string(compiled.cubin.begin(), compiled.cubin.end())};
} catch (const std::bad_alloc&) {
  return {Kind::failed, "out of memory"};
}

/// Whether all of it was taken.
bool write_all(const void* bytes, std::size_t count) {
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t n = write(STDOUT_FILENO, at, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace
}  // namespace ec::kernels::cuda

int main(int count, char** arguments) {
  using namespace ec::kernels::cuda;
  // Nobody waits for the answer when the host is gone.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "ec_cuda_compile");
  setpriority(PRIO_PROCESS, 0, niceness);
  if (count != 2) return 1;
#ifdef SYS_close_range
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
#endif
  const CompilerReply reply = answer(arguments[1]);
  const CompilerReplyHead head{reply.kind, reply.body.size()};
  // What NVRTC has registered for the end of a process need not run.
  _exit(write_all(&head, sizeof head) && write_all(reply.body.data(), reply.body.size()) ? 0 : 1);
}
